//! TLS towards replicas: who is trusted, and what is spoken inside.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::config::ReplicaTls;

/// What the TLS connections of one configuration have in common. Made when the first is wanted: reading the system's
/// certificates takes milliseconds.
pub(super) struct Tls {
    settings: ReplicaTls,
    configs: [OnceLock<Arc<ClientConfig>>; 2],
}

impl Tls {
    pub(super) fn new(settings: &ReplicaTls) -> Self {
        Self { settings: settings.clone(), configs: Default::default() }
    }

    pub(super) fn settings(&self) -> &ReplicaTls {
        &self.settings
    }

    /// A connector that offers exactly the version of HTTP that will be spoken.
    pub(super) fn connector(&self, http2: bool) -> TlsConnector {
        let config = self.configs[usize::from(http2)].get_or_init(|| {
            let mut config = ClientConfig::builder().with_root_certificates(self.roots()).with_no_client_auth();
            config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
            Arc::new(config)
        });
        TlsConnector::from(config.clone())
    }

    /// The system's certificates, and those that the configuration adds.
    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        for error in &system.errors {
            tracing::warn!(%error, "cannot read some of the system's certificates");
        }
        roots.add_parsable_certificates(system.certs);
        let added = self.settings.certificates.iter().map(|der| CertificateDer::from_slice(der));
        roots.add_parsable_certificates(added);
        roots
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("settings", &self.settings).finish_non_exhaustive()
    }
}
