//! Of transactions.
