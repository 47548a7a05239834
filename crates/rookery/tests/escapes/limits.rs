//! Resource exhaustion: processes, memory, disk, open files and CPU time.
