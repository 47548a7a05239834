//! Connections: how each kind is opened, and how several statements go to the server in one go.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, Hook, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts};
use futures_util::StreamExt;
use rookery_core::model::ColumnValue;
use rookery_core::{LogId, NodeId, Seq, Timestamp};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::sync::mpsc;
use tokio_postgres::types::{BorrowToSql, ToSql};
use tokio_postgres::{AsyncMessage, Config, Row, RowStream, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Address, ServerTrust};
use super::error::{OpenError, Problem};
use super::text;
use crate::query::LogHead;
use crate::sql::Sql;

/// The database's clock, in epoch milliseconds.
pub(super) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// How long a transaction may wait for us: one of a node that was stopped must not hold the head.
const IDLE_IN_TRANSACTION: &str = "5s";
/// How long a batch waits for the head: longer than a stopped node may hold it.
const WAIT_FOR_HEAD: &str = "12s";
const SLOWEST_BATCH: &str = "20s";
const SLOWEST_READ: &str = "15s";
/// How long a read waits for a connection.
const WAIT_FOR_CONNECTION: Duration = Duration::from_secs(5);

/// Everything is found by its key or in the order of an index. For the many keys of a batch, the server would rather read
/// the whole of a table that it takes for small, which costs each batch more than the last.
const BY_INDEX: (&str, &str) = ("enable_seqscan", "off");

/// Every session: durable before it answers. A client that is gone, or does not take what it is sent, is noticed by the
/// server after about ten seconds, for until then it may hold locks.
const ALWAYS: &[(&str, &str)] = &[
    ("synchronous_commit", "on"),
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "3"),
    ("tcp_keepalives_count", "2"),
    ("tcp_user_timeout", "10000"),
    ("jit", "off"),
];

/// Sessions that write are never in the way for long.
const WRITER: &[(&str, &str)] = &[
    ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION),
    ("lock_timeout", WAIT_FOR_HEAD),
    ("statement_timeout", SLOWEST_BATCH),
    BY_INDEX,
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

const POOL: &[(&str, &str)] = &[
    ("idle_in_transaction_session_timeout", IDLE_IN_TRANSACTION),
    ("lock_timeout", WAIT_FOR_HEAD),
    ("statement_timeout", SLOWEST_READ),
    BY_INDEX,
];

/// Sessions that bring a schema up: they may take their time, but not sleep over it.
const PREPARING: &[(&str, &str)] =
    &[("idle_in_transaction_session_timeout", "15s"), ("lock_timeout", "30s"), ("statement_timeout", "0")];

/// Sessions that read or move a whole log, whatever a role's own limits are.
const PATIENT: &[(&str, &str)] =
    &[("idle_in_transaction_session_timeout", "0"), ("lock_timeout", WAIT_FOR_HEAD), ("statement_timeout", "0")];

/// Opens connections to one address.
#[derive(Clone)]
pub(super) struct Connector {
    address: Arc<Address>,
    tls: MakeRustlsConnect,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("address", &self.address.to_string()).finish_non_exhaustive()
    }
}

impl Connector {
    pub(super) fn new(address: Address) -> Result<Connector, OpenError> {
        let tls = MakeRustlsConnect::new(tls(&address)?);
        Ok(Connector { address: Arc::new(address), tls })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    fn config(&self, purpose: &str, settings: &[(&str, &str)]) -> Config {
        self.address.config(purpose, &[ALWAYS, settings].concat())
    }

    /// A connection for batches.
    pub(super) async fn writer(&self) -> Result<ClientWrapper, tokio_postgres::Error> {
        self.connect("writer", WRITER).await
    }

    /// A connection for bringing the schema up.
    pub(super) async fn preparing(&self) -> Result<ClientWrapper, tokio_postgres::Error> {
        self.connect("preparing", PREPARING).await
    }

    /// A connection for long work.
    pub(super) async fn patient(&self) -> Result<ClientWrapper, tokio_postgres::Error> {
        self.connect("upkeep", PATIENT).await
    }

    async fn connect(&self, purpose: &str, settings: &[(&str, &str)]) -> Result<ClientWrapper, tokio_postgres::Error> {
        let (client, connection) = self.config(purpose, settings).connect(self.tls.clone()).await?;
        let driving = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        Ok(ClientWrapper::new(client, driving))
    }

    /// A connection that also hears what others say on the store's channel. The receiver ends with the connection.
    pub(super) async fn listener(
        &self,
        node: &NodeId,
    ) -> Result<(ClientWrapper, mpsc::Receiver<()>), tokio_postgres::Error> {
        let own = node.to_string();
        let (client, mut connection) = self.config("listener", POOL).connect(self.tls.clone()).await?;
        // What is said is a hint to look: one that waits already stands for those that follow.
        let (hint, hints) = mpsc::channel(1);
        let driving = tokio::spawn(async move {
            let mut messages = futures_util::stream::poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(said) = message
                    && said.payload() != own
                {
                    hint.try_send(()).ok();
                }
            }
        });
        let client = ClientWrapper::new(client, driving);
        client.batch_execute(&format!("LISTEN {}", self.address.channel())).await?;
        Ok((client, hints))
    }

    /// Connections for reads and operational state.
    pub(super) fn pool(&self, size: usize) -> Result<Pool, Problem> {
        let config = self.config("pool", POOL);
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config, self.tls.clone(), recycling);
        let timeouts = Timeouts {
            wait: Some(WAIT_FOR_CONNECTION),
            create: Some(WAIT_FOR_CONNECTION * 2),
            recycle: Some(WAIT_FOR_CONNECTION),
        };
        let counted = Hook::sync_fn(|_, _| {
            metrics::counter!("rookery_store_connections_total").increment(1);
            Ok(())
        });
        Pool::builder(manager)
            .max_size(size)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .post_create(counted)
            .build()
            .map_err(|error| Problem::Connection(error.to_string()))
    }
}

fn tls(address: &Address) -> Result<ClientConfig, OpenError> {
    let unreadable = |reason: String| OpenError::Certificates { reason };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unreadable(error.to_string()))?;
    if address.trust() == ServerTrust::Anybody {
        let anybody = Arc::new(Anybody { provider });
        return Ok(builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    match address.root_certificates() {
        Some(file) => {
            let told = |error| unreadable(format!("{}: {error}", file.display()));
            let certificates = CertificateDer::pem_file_iter(file).map_err(told)?;
            for certificate in certificates {
                let certificate = certificate.map_err(told)?;
                roots.add(certificate).map_err(|error| unreadable(format!("{}: {error}", file.display())))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Takes any certificate: what `sslmode=prefer` and `require` ask for.
#[derive(Debug)]
struct Anybody {
    provider: Arc<rustls::crypto::CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A value of a statement.
pub(super) type Param = Box<dyn ToSql + Sync + Send>;

/// One column of many rows, for `unnest`.
pub(super) fn column<S, T>(rows: &[S], of: impl Fn(&S) -> T) -> Param
where
    T: ToSql + Sync + Send + 'static,
{
    Box::new(rows.iter().map(of).collect::<Vec<T>>())
}

/// A statement with what is bound to it.
pub(super) struct Question {
    pub(super) text: std::borrow::Cow<'static, str>,
    pub(super) params: Vec<Param>,
}

impl Question {
    pub(super) fn new(text: impl Into<std::borrow::Cow<'static, str>>, params: Vec<Param>) -> Question {
        Question { text: text.into(), params }
    }
}

impl From<Sql> for Question {
    fn from(sql: Sql) -> Question {
        let params = sql.values.into_iter().map(|value| -> Param {
            match value {
                ColumnValue::Null => Box::new(None::<String>),
                ColumnValue::Text(text) => Box::new(text::stored(&text)),
                ColumnValue::Integer(integer) => Box::new(integer),
            }
        });
        Question { params: params.collect(), text: sql.text.into() }
    }
}

/// How the statements of a pipeline begin and end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Frame {
    /// As they are.
    Bare,
    /// A transaction that is left open.
    Begun,
    /// Statements that end the open transaction.
    Committed,
    /// A whole transaction.
    Whole,
    /// A whole transaction that only reads, and sees one moment.
    Snapshot,
}

impl Frame {
    fn begin(self) -> Option<&'static str> {
        match self {
            Frame::Bare | Frame::Committed => None,
            Frame::Begun | Frame::Whole => Some("BEGIN ISOLATION LEVEL READ COMMITTED"),
            Frame::Snapshot => Some("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        }
    }

    fn end(self) -> Option<&'static str> {
        match self {
            Frame::Bare | Frame::Begun => None,
            Frame::Committed | Frame::Whole | Frame::Snapshot => Some("COMMIT"),
        }
    }
}

/// The rows of a statement; `None` of one that begins or ends a transaction.
type Answer = Result<Option<RowStream>, tokio_postgres::Error>;

/// A statement that was sent, or will be when it is first looked at.
type Going<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// Sends statements in one go and waits for all of their answers: many statements, one round trip. The first failure is
/// told; what follows it in a transaction has failed with it.
pub(super) async fn ask(
    client: &ClientWrapper,
    frame: Frame,
    questions: &[Question],
) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
    let mut found: Vec<Vec<Row>> = questions.iter().map(|_| vec![]).collect();
    ask_each(client, frame, questions, &mut |index, row| {
        found[index].push(row);
        Ok::<_, tokio_postgres::Error>(())
    })
    .await?;
    Ok(found)
}

/// The same, where each row is taken as it comes, with the index of its statement. The server is not read faster than
/// rows are taken.
pub(super) async fn ask_each<E: From<tokio_postgres::Error>>(
    client: &ClientWrapper,
    frame: Frame,
    questions: &[Question],
    take: &mut (dyn FnMut(usize, Row) -> Result<(), E> + Send),
) -> Result<(), E> {
    let mut statements: Vec<Statement> = Vec::with_capacity(questions.len());
    for question in questions {
        statements.push(client.prepare_cached(&question.text).await?);
    }
    let mut going: Vec<Going<'_>> = Vec::new();
    let framing = |sql: Option<&'static str>| {
        sql.map(|sql| -> Going<'_> { Box::pin(async move { client.batch_execute(sql).await.map(|()| None) }) })
    };
    going.extend(framing(frame.begin()));
    for (statement, question) in statements.iter().zip(questions) {
        let params: Vec<&(dyn ToSql + Sync)> =
            question.params.iter().map(|param| param.as_ref() as &(dyn ToSql + Sync)).collect();
        going.push(Box::pin(async move {
            let params = params.iter().map(|param| param.borrow_to_sql());
            client.query_raw(statement, params).await.map(Some)
        }));
    }
    going.extend(framing(frame.end()));
    let mut answers: Vec<Option<Answer>> = Vec::with_capacity(going.len());
    // The first look at each sends it, in this order. One that cannot even be sent is the last: nothing is committed
    // without it.
    poll_fn(|context| {
        for future in &mut going {
            match future.as_mut().poll(context) {
                Poll::Ready(answer) => answers.push(Some(answer)),
                Poll::Pending => answers.push(None),
            }
            if matches!(answers.last(), Some(Some(Err(_)))) {
                break;
            }
        }
        Poll::Ready(())
    })
    .await;
    let (mut failed, mut index) = (None, 0);
    for (answer, future) in answers.into_iter().zip(going) {
        let answer = match answer {
            Some(answer) => answer,
            None => future.await,
        };
        let taken = match answer {
            Ok(None) => Ok(()),
            Ok(Some(rows)) => {
                index += 1;
                take_rows(rows, |row| take(index - 1, row)).await
            }
            Err(error) => Err(error.into()),
        };
        // The end of a transaction that failed is its own failure's echo.
        failed = failed.or(taken.err());
    }
    failed.map_or(Ok(()), Err)
}

async fn take_rows<E: From<tokio_postgres::Error>>(
    rows: RowStream,
    mut take: impl FnMut(Row) -> Result<(), E>,
) -> Result<(), E> {
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.next().await {
        take(row?)?;
        // Rows that have come already are no reason to keep the thread from others.
        tokio::task::coop::consume_budget().await;
    }
    Ok(())
}

/// The head row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    pub(super) head: LogHead,
    pub(super) format: u32,
    pub(super) schema: u32,
    pub(super) tokens: u64,
    pub(super) moved_to: Option<String>,
}

pub(super) const HEAD: &str = "SELECT log_id, floor, head, format, schema, tokens, moved_to FROM log_head";
pub(super) const LOCKED_HEAD: &str =
    "SELECT log_id, floor, head, format, schema, tokens, moved_to FROM log_head FOR UPDATE";

/// The head and, as the last column, what time it is once it is locked. In the statement that locks, the clock would be
/// read before the lock was waited for; around it, the row has been locked when it gets there.
pub(super) static LOCKED_HEAD_AND_TIME: LazyLock<String> =
    LazyLock::new(|| format!("SELECT *, {NOW} FROM ({LOCKED_HEAD}) AS locked"));

pub(super) fn stored(rows: &[Row]) -> Result<Stored, Problem> {
    let row = rows.first().ok_or_else(|| Problem::Unreadable("the log has no head".to_owned()))?;
    Ok(Stored {
        head: LogHead { log: LogId::new(text(row, 0)?), floor: seq(row.try_get(1)?)?, head: seq(row.try_get(2)?)? },
        format: u32::try_from(row.try_get::<_, i32>(3)?).unwrap_or(u32::MAX),
        schema: u32::try_from(row.try_get::<_, i32>(4)?).unwrap_or(u32::MAX),
        tokens: u64::try_from(row.try_get::<_, i64>(5)?).unwrap_or(0),
        moved_to: some_text(row, 6)?,
    })
}

/// The text of a column, as it was before it was stored.
pub(super) fn text(row: &Row, at: usize) -> Result<String, Problem> {
    Ok(text::read(row.try_get(at)?).into_owned())
}

/// The same where there may be none.
pub(super) fn some_text(row: &Row, at: usize) -> Result<Option<String>, Problem> {
    Ok(row.try_get::<_, Option<&str>>(at)?.map(|stored| text::read(stored).into_owned()))
}

/// The time that a row ends with.
pub(super) fn timestamp(rows: &[Row]) -> Result<Timestamp, Problem> {
    let row = rows.first().ok_or_else(|| Problem::Unreadable("the database told no time".to_owned()))?;
    Ok(Timestamp(row.try_get(row.len() - 1)?))
}

pub(super) fn seq(stored: i64) -> Result<Seq, Problem> {
    u64::try_from(stored).map(Seq).map_err(|_| Problem::Unreadable(format!("{stored} is no place in the log")))
}

pub(super) fn stored_seq(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}
