//! The tools. Each file is one tool: its declaration, `prepare` (look, but do not touch) and `run`. Both are called on worker
//! threads only; nothing here knows of tasks' logs, clients or dialects.
