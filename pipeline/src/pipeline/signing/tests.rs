//! Certificate signing requests made with a common tool, intact and damaged.

use super::*;
use kstore_api::kind;
use serde_json::json;

const ED25519: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHT01FSUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWFtRnVaVEFxTUFVR0F5dGxjQU1oQUVtSGRFMG1ZSzJEL2lVWQpaZHFjeGg5TnIxRTEvdWJaOEI2b3ZDK0J6Ym9ib0FBd0JRWURLMlZ3QTBFQTdnajBsQ1FCUmFPall4Qm05OUIzCis4MWIzTlIvVXRpbWoxSFlVejNrVTQ4ODdPYnZlQ25hUHBpTS9HVHNsejRZWGdJRVowTyt0UXlFbXcrdWpBbFcKRGc9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
const P256: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISk1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWFtRnVaVEJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQkpJUWhkTytrR2piMjk2d01RRUNCVW9BSlN1WXFBcXRJa2xnRzVNNG9LQ21udDQ3YldReXVmNk1peHhICk4zL3hBNFY3cklVeFNRZ0syazZRYjZTS1p0U2dBREFLQmdncWhrak9QUVFEQWdOSUFEQkZBaUVBeXpQeVh2NnYKSkpuUStid0Q1RUxRbzJXME8zV1Bwd003YUNPdG1xZDBTUGdDSUJ4cnF5SWJobmhlREc5N3NDR2hRbElpSXRQRwpyZU1QRjNRUEc3ZW5CZlBVCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
const P521: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQlR6Q0JzUUlCQURBTU1Rb3dDQVlEVlFRRERBRnFNSUdiTUJBR0J5cUdTTTQ5QWdFR0JTdUJCQUFqQTRHRwpBQVFBQlBHdUU4aGhqVUhJR1lDMmRLY2xUT2hXSUR5dmEvdldBb1gvYmhCQVJMVFliS1djbmRkOWM0MTNlWkw3CjN6Nlh0a3AxdXVCUWx4c3R2WmRhU0xsNEdQTUIvWWc0Q2k2WlhFY1FnbTc1enQ4ekJIZEJrQmxKbStZZ2dFbVQKRUtnSkNCMnFrZ1I0L1hKakFkTmdYOGFZVDdZQ0lRNGdIN0xGUUEydE5XYmRqR2VCeEJDZ0FEQUtCZ2dxaGtqTwpQUVFEQkFPQmpBQXdnWWdDUWdINEdmeGlzSnpTR2xGN3dEeDZJVTM4ckk3blZkUkNBMkZNSW9XeEVFem1Wa0NLCnVsMitlRDVFcW5rRTV1eURZaGdCUHZCbTAwcTZpY2svcDhTKytjRC9wUUpDQUx3NlkxVUx4RVhGZ2lCNldYSysKRHl5aU80MGJYOEE0SnNtaHBMei9XTVRYdFZDVE1EVmpGN2JSV2dOejNqbkZHRSt3WUlaUFFwL3NVelVrSE4ybAplQ2RqCi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
const RSA_1024: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQlN6Q0J0UUlCQURBTU1Rb3dDQVlEVlFRRERBRnFNSUdmTUEwR0NTcUdTSWIzRFFFQkFRVUFBNEdOQURDQgppUUtCZ1FDNVJGaGFMZTE5UDlRRVM0eTJWQXV1N1RJK3hNU1QwYTVhRFU3RTJnVmFPc3NSZ0JvN0RERm1rNVBJCituUXIxYmNkdnlNNlVZYzdHbHlFNitLR2RjMjFlRXkzb21va1FmODNnU1FYV2JDaGE3NWtUKzVqcldGQlkvdUIKaGhTdFhvODRDekZKV3ZZZ00raVFlWXpWczBoMldiQWx6am9jZnBoenBFNUtCOWx2UFFJREFRQUJvQUF3RFFZSgpLb1pJaHZjTkFRRUxCUUFEZ1lFQWxkRUdxMHJocUU3WFZwUjREWWNZdmxETXdISDZ0NkdYdCthSnM2NU41YzF1CkpoWk01czFDOEtLTE4zYmlYNHdzVUh6T202d2ZZcElTZitvTmhpamI1QjFnekJ2cHB4MUM1bVZ1cm9LajEva0sKOGpzZ2lESjFxdlN4Y0MvZVJnOWlmTE5BcXNxODI4Nlh6Nnppb0w4aXpXSVZzODVIbGdJdEh0NzkvTnlVbDhnPQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";
const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJORENCNTZBREFnRUNBaFJHS0VSanR3S01NRUE1UnlrUHZQRUZjZldaSlRBRkJnTXJaWEF3RHpFTk1Bc0cKQTFVRUF3d0VhbUZ1WlRBZ0Z3MHlOakV4TWpFeE5qVTVNemxhR0E4eU1USTJNVEF5T0RFMk5Ua3pPVm93RHpFTgpNQXNHQTFVRUF3d0VhbUZ1WlRBcU1BVUdBeXRsY0FNaEFFbUhkRTBtWUsyRC9pVVlaZHFjeGg5TnIxRTEvdWJaCjhCNm92QytCemJvYm8xTXdVVEFkQmdOVkhRNEVGZ1FVakRISGtIWS8xQm5qUDlsWE5qQ1BtOVdKSFBrd0h3WUQKVlIwakJCZ3dGb0FVakRISGtIWS8xQm5qUDlsWE5qQ1BtOVdKSFBrd0R3WURWUjBUQVFIL0JBVXdBd0VCL3pBRgpCZ01yWlhBRFFRQXlyU2tTZGlKdFVSOGZFTW9XQTMrMDRvaHNRbTFXcEFoWEhEaitKUW90SStnSStYS3NnamJiCmFqSGxVa0MxQWJUWGFwQUJMekx0MExJZDVkWjZLNFFECi0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K";

fn row() -> &'static Resource {
    kind::lookup("certificates.k8s.io", "v1", "certificatesigningrequests").unwrap()
}

fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(|error| format!("{}: {}", error.field, error.detail)).collect()
}

fn encoded(label: &str, contents: &[u8]) -> String {
    STANDARD
        .encode(format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(contents)))
}

fn contents(encoded: &str) -> Vec<u8> {
    blocks(&json!(encoded)).remove(0).contents
}

fn errors_of(request: &str) -> Vec<String> {
    texts(&super::validate_request(row(), &json!({"spec": {"request": request}})))
}

#[test]
fn a_request_must_be_signed_with_its_own_key() {
    for good in [ED25519, P256, P521, RSA_1024] {
        assert_eq!(errors_of(good), Vec::<String>::new());
    }
    let damaged = |request: &str| {
        let mut der = contents(request);
        *der.last_mut().unwrap() ^= 1;
        errors_of(&encoded("CERTIFICATE REQUEST", &der))
    };
    assert_eq!(damaged(ED25519), ["spec.request: x509: Ed25519 verification failure"]);
    assert_eq!(damaged(P256), ["spec.request: x509: ECDSA verification failure"]);
    assert_eq!(damaged(P521), Vec::<String>::new(), "signatures that cannot be verified are accepted");
}

#[test]
fn malformed_requests_are_refused() {
    let none = errors_of(&encoded("CERTIFICATE REQUEST", b"0"));
    assert_eq!(none, ["spec.request: asn1: structure error: not a certificate request"]);
    let mut longer = contents(ED25519);
    longer.push(0);
    let longer = errors_of(&encoded("CERTIFICATE REQUEST", &longer));
    assert_eq!(longer, ["spec.request: asn1: syntax error: trailing data"]);
    assert_eq!(
        errors_of(&encoded("CERTIFICATE", b"0")),
        Vec::<String>::new(),
        "the rules in `api` report the wrong label"
    );
    assert_eq!(errors_of("?"), Vec::<String>::new());
}

#[test]
fn only_certificates_can_be_issued() {
    let issued = |chain: &str, before: &str| {
        let object = |chain: &str| json!({"status": {"certificate": chain}});
        texts(&validate_certificate(row(), &object(chain), &object(before)))
    };
    assert_eq!(issued(CERTIFICATE, ""), Vec::<String>::new());
    let none = encoded("CERTIFICATE", b"0");
    assert_eq!(issued(&none, ""), ["status.certificate: x509: malformed certificate"]);
    assert_eq!(issued(&none, &none), Vec::<String>::new(), "an unchanged certificate is not validated");
}
