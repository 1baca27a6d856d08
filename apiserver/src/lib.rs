//! The one way in: REST and gRPC doors, authentication, authorization, admission, registry, watch cache
