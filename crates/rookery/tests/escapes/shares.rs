//! Taking every stream, connection or download so that nobody else gets one.
