//! TLS at the door: what it shows, whom it lets in, and how a handshake goes.
//!
//! The files are Python's: it reads and judges them, and says what was wrong with them in its log. A handshake whose
//! first words have come knocks (`exchange`), Python looks whether the files are other ones, and the handshake goes on
//! with what is in force then. Nothing is resumed: what a caller has shown is judged anew with each connection.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{Acceptor, NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, rustls};

use crate::certificate::{Names, is_in_force, names_of};
use crate::exchange::{Exchange, locked};

const HTTP_2: &[u8] = b"h2";

/// What a server shows, and whose callers it lets in, in PEM.
pub struct Pem<'a> {
    pub certificate: &'a [u8],
    pub key: &'a [u8],
    /// None: nobody is asked for a certificate.
    pub client_ca: Option<&'a [u8]>,
}

pub struct Tls(Mutex<Arc<ServerConfig>>);

impl Tls {
    pub fn new(pem: &Pem) -> Result<Self, Error> {
        Ok(Self(Mutex::new(made(pem)?)))
    }

    /// Those that are open go on.
    pub fn renew(&self, pem: &Pem) -> Result<(), Error> {
        *locked(&self.0) = made(pem)?;
        Ok(())
    }

    /// The names in the certificate that the caller has shown, where it was asked for one.
    pub async fn greet<S>(&self, stream: S, exchange: &Exchange) -> io::Result<(TlsStream<S>, Option<Names>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let begun = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        exchange.knock().await;
        let config = Arc::clone(&locked(&self.0));
        let stream = begun.into_stream(config).await?;
        let session = stream.get_ref().1;
        if session.alpn_protocol() != Some(HTTP_2) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let names = session.peer_certificates().and_then(<[_]>::first).map(|shown| names_of(shown));
        Ok((stream, names))
    }
}

fn made(pem: &Pem) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let versions = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&[&TLS13, &TLS12]);
    let callers = match pem.client_ca {
        Some(authorities) => Callers::of(authorities, &provider)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let key = PrivateKeyDer::from_pem_slice(pem.key).map_err(unreadable)?;
    let mut config = versions?.with_client_cert_verifier(callers).with_single_cert(chain(pem.certificate)?, key)?;
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(unreadable)
}

#[allow(clippy::needless_pass_by_value)]
fn unreadable(error: rustls::pki_types::pem::Error) -> Error {
    Error::General(error.to_string())
}

/// Lets callers in whose certificate an authority has signed; or whose certificate is listed as one, which is how one
/// that has signed itself is agreed on. Rustls would not take it: it may sign others.
#[derive(Debug)]
struct Callers {
    listed: Vec<CertificateDer<'static>>,
    signed: Arc<dyn ClientCertVerifier>,
}

impl Callers {
    fn of(authorities: &[u8], provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        let listed = chain(authorities)?;
        let mut roots = RootCertStore::empty();
        for each in &listed {
            roots.add(each.clone())?;
        }
        let signed = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider)).build();
        let signed = signed.map_err(|error| Error::General(error.to_string()))?;
        Ok(Arc::new(Self { listed, signed }))
    }
}

impl ClientCertVerifier for Callers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.listed.contains(shown) && is_in_force(shown, now.as_secs()) {
            return Ok(ClientCertVerified::assertion());
        }
        self.signed.verify_client_cert(shown, between, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, shown, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
