// DESCRIPTION
// exp, log and digamma of this kernel's own, from additions, multiplications, divisions and bits alone: their
// results are the same on every machine, compiler and C library. Errors, for the arguments given below:
// exact_exp 2^-50 of the value, exact_log 2^-50 of max(1, |value|), exact_digamma 2^-44 of max(1, |value|).
#pragma once

namespace tokcore {

// x: at most 700. 0 where the value is below 2^-1000.
double exact_exp(double x);

// x: a positive, normal number.
double exact_log(double x);

// x: from 2^-10 on.
double exact_digamma(double x);

}  // namespace tokcore
