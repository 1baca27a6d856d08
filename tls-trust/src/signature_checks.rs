//! The part of a verifier of client certificates that checks signatures of handshakes, by
//! another verifier.

/// Defines the methods of a `ClientCertVerifier` that check signatures of handshakes. `$inner` names the verifier that
/// checks them.
#[macro_export]
macro_rules! signature_checks_of {
    ($inner:expr) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signed: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            $inner(self).verify_tls12_signature(message, certificate, signed)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &::rustls::pki_types::CertificateDer<'_>,
            signed: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            $inner(self).verify_tls13_signature(message, certificate, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<::rustls::SignatureScheme> {
            $inner(self).supported_verify_schemes()
        }
    };
}
