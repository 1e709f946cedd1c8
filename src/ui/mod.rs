//! What people see of a task. [`scene`] folds the records of a task; the terminal and the web console show the result.

pub mod scene;
