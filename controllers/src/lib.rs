//! The workload and cluster controllers, plain clients of the API
