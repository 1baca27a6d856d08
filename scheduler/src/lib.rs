//! Filter, score, assume, bind: the scheduler, a plain client of the API
