//! A durable MVCC store with revisions, transactions, leases and watch-from-revision
