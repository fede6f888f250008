//! One file a question: about, plan, reading.
