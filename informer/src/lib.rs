//! Reflector, indexer, shared informers and rate-limited workqueue over any ListerWatcher
