//! Starts TLS on a connection to a server, and checks the server's certificate.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::RedisError;
use crate::address::Address;

/// What is needed to start TLS.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl Tls {
    /// Trusts the platform's roots (also those of `SSL_CERT_FILE`), and these certificates in PEM format.
    pub(crate) async fn trusting(pems: Vec<Vec<u8>>) -> Result<Self, RedisError> {
        // Loading is slow: it reads a hundred files on some systems, and a keychain on others.
        let loading = tokio::task::spawn_blocking(move || trusted_roots(&pems));
        let roots = loading.await.map_err(|error| RedisError::Setting(error.to_string()))??;
        // Not the provider of the process, which may be another one or none.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| RedisError::Setting(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub(crate) async fn start(&self, address: &Address, stream: TcpStream) -> Result<TlsStream<TcpStream>, RedisError> {
        let failed = |why: String| RedisError::Tls { server: address.server(), why };
        let name = ServerName::try_from(address.host.clone())
            .map_err(|_| failed("its host is not a name that a certificate can be issued for".into()))?;
        self.0.connect(name, stream).await.map_err(|error| {
            let rustls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            failed(match rustls {
                Some(rustls::Error::InvalidMessage(_)) => {
                    "the server does not answer with TLS; without TLS the URL begins with redis://".into()
                }
                Some(rustls::Error::InvalidCertificate(why)) => format!(
                    "its certificate is not accepted ({why:?}); name a private certificate authority with \
                     SSL_CERT_FILE, or with RedisBuilder::certificate_authority"
                ),
                Some(rustls::Error::AlertReceived(alert)) => format!("the server ends the handshake: {alert:?}"),
                _ => format!("{error}; without TLS the URL begins with redis://"),
            })
        })
    }
}

fn trusted_roots(pems: &[Vec<u8>]) -> Result<RootCertStore, RedisError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Every platform's store has old certificates that cannot be parsed; they are skipped.
    roots.add_parsable_certificates(found.certs);
    for pem in pems {
        let mut is_empty = true;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let added = certificate.map_err(|error| error.to_string());
            let added = added.and_then(|certificate| roots.add(certificate).map_err(|error| error.to_string()));
            added.map_err(|why| RedisError::Setting(format!("a certificate authority cannot be used: {why}")))?;
            is_empty = false;
        }
        if is_empty {
            let why = "a certificate authority is not in PEM format (-----BEGIN CERTIFICATE-----)";
            return Err(RedisError::Setting(why.into()));
        }
    }
    if roots.is_empty() {
        let why = "there are no trusted certificates: install the platform's ca-certificates, or set SSL_CERT_FILE";
        return Err(RedisError::Setting(why.into()));
    }
    Ok(roots)
}
