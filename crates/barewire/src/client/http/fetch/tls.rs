//! Starts TLS on a connection to a host, and checks the host's certificate.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::FetchError;
use super::url::Origin;

/// The trusted certificates. The platform's roots are read when the first connection needs them.
pub(super) struct Tls {
    extra: Vec<CertificateDer<'static>>,
    connector: OnceCell<TlsConnector>,
}

impl Tls {
    /// Trusts these certificates in PEM format in addition to the platform's roots.
    pub(super) fn trusting(pems: &[Vec<u8>]) -> Result<Self, FetchError> {
        let mut extra = Vec::new();
        for pem in pems {
            let before = extra.len();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                extra.push(certificate.map_err(|error| FetchError::Roots(format!("not PEM: {error}")))?);
            }
            if extra.len() == before {
                return Err(FetchError::Roots("there is no PEM certificate (-----BEGIN CERTIFICATE-----)".into()));
            }
        }
        // An invalid certificate is reported now, not when a connection fails.
        let mut store = RootCertStore::empty();
        for certificate in &extra {
            store.add(certificate.clone()).map_err(|error| FetchError::Roots(error.to_string()))?;
        }
        Ok(Self { extra, connector: OnceCell::new() })
    }

    pub(super) async fn connect<S>(&self, origin: &Origin, stream: S) -> Result<TlsStream<S>, FetchError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(origin.host().to_owned()).map_err(|_| FetchError::Tls {
            origin: origin.to_string(),
            why: "its host is not a name that a certificate can be issued for".into(),
        })?;
        let connector = self.connector.get_or_try_init(|| self.load()).await?;
        connector.connect(name, stream).await.map_err(|error| FetchError::of_handshake(origin, &error))
    }

    async fn load(&self) -> Result<TlsConnector, FetchError> {
        // Loading is slow: it reads a hundred files on some systems, and a keychain on others.
        let loading = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs);
        let found = loading.await.map_err(|error| FetchError::Roots(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        // Every platform's store has old certificates that cannot be parsed; they are skipped.
        roots.add_parsable_certificates(found.certs);
        roots.add_parsable_certificates(self.extra.iter().cloned());
        if roots.is_empty() {
            let why = match found.errors.first() {
                Some(error) => format!("the platform's certificates: {error}"),
                None => "the platform has none: install its ca-certificates, or set SSL_CERT_FILE".into(),
            };
            return Err(FetchError::Roots(why));
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| FetchError::Roots(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_certificate_is_refused_at_once() {
        let refused = |pem: &str| Tls::trusting(&[pem.into()]).err().unwrap().to_string();
        assert!(refused("").contains("BEGIN CERTIFICATE"));
        assert!(refused("hello").contains("BEGIN CERTIFICATE"));
        assert!(refused("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").contains("PEM"));
        assert!(
            refused("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n").contains("cannot be read")
        );
    }
}
