//! Context folders, documents, names and schemas as a way out.
