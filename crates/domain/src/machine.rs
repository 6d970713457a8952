//! The states of a machine (sections 2.1 and 3.1 of the interface).
