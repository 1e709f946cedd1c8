mod lines;
mod literal;
