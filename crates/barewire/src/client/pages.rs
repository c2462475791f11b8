//! Requests all pages of a list, and returns the items of all pages.

use std::collections::HashSet;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use barewire_proto::mcp::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Prompt, Resource,
    ResourceTemplate, Tool,
};
use serde::Serialize;
use serde_json::value::to_raw_value;

use super::params::CallParams;
use super::request::{CallOptions, Request, parse_result};
use super::{Client, ClientError};
use crate::peer::{FromResult, Raw, shown};

/// A request for all pages of a list, which are requested one after the other. Nothing is sent until this value is
/// awaited.
#[must_use = "nothing is sent until it is awaited"]
pub struct Pages<P> {
    client: Client,
    options: CallOptions,
    page: PhantomData<fn() -> P>,
}

/// The result type of a list request. It holds one page of the list.
pub trait Page: sealed::ListPage {}

impl<P: sealed::ListPage> Page for P {}

mod sealed {
    pub trait ListPage: crate::peer::FromResult {
        type Item: Send + 'static;
        const METHOD: &'static str;
        /// Returns the items and the cursor of the next page.
        fn into_parts(self) -> (Vec<Self::Item>, Option<String>);
    }
}

macro_rules! page {
    ($page:ty, $item:ty, $method:literal, $items:ident) => {
        impl sealed::ListPage for $page {
            type Item = $item;
            const METHOD: &'static str = $method;

            fn into_parts(self) -> (Vec<$item>, Option<String>) {
                (self.$items, self.next_cursor)
            }
        }
    };
}

page!(ListToolsResult, Tool, "tools/list", tools);
page!(ListPromptsResult, Prompt, "prompts/list", prompts);
page!(ListResourcesResult, Resource, "resources/list", resources);
page!(ListResourceTemplatesResult, ResourceTemplate, "resources/templates/list", resource_templates);

impl<P: Page> Pages<P> {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone(), options: CallOptions::default(), page: PhantomData }
    }

    /// Sets how long to wait for each page.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.set_timeout(timeout);
        self
    }

    /// Adds members to the `_meta` of each request.
    pub fn meta(mut self, meta: impl Serialize) -> Self {
        self.options.add_meta(&meta);
        self
    }
}

/// Requests one page: the first page, or the page at `cursor`.
pub(super) fn page<P: Page>(client: &Client, cursor: Option<&str>) -> Request<P> {
    Request::new(client, P::METHOD, cursor_params(cursor))
}

fn cursor_params(cursor: Option<&str>) -> Result<CallParams, String> {
    match cursor {
        None => Ok(CallParams::None),
        // An empty string is a valid cursor.
        Some(cursor) => CallParams::members([("cursor", to_raw_value(cursor))]),
    }
}

impl<P: Page + FromResult> IntoFuture for Pages<P> {
    type Output = Result<Vec<P::Item>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (mut all, mut seen, mut cursor) = (Vec::new(), HashSet::new(), None::<String>);
            let (fault, mut bytes) = (|what: String| Err(ClientError::fault(P::METHOD, what)), 0);
            for _ in 0..MAX_PAGES {
                // The page is requested as raw text to count its bytes, because the size of the text cannot be derived
                // from the parsed page.
                let mut call = Request::<Raw>::new(&self.client, P::METHOD, cursor_params(cursor.as_deref()));
                call.options = self.options.clone();
                let page = call.await?;
                bytes += page.as_str().map_or(0, str::len);
                let (items, next) = parse_result::<P>(P::METHOD, page)?.into_parts();
                all.extend(items);
                let Some(next) = next else { return Ok(all) };
                if bytes > MAX_LIST_BYTES {
                    return fault(format!("its list does not end within {} MiB", MAX_LIST_BYTES >> 20));
                }
                if !seen.insert(next.clone()) {
                    return fault(format!("it repeats the list cursor \"{}\"", shown(&next)));
                }
                cursor = Some(next);
            }
            fault(format!("its list does not end within {MAX_PAGES} pages"))
        })
    }
}

impl<P> fmt::Debug for Pages<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pages")
    }
}

/// The maximum number of pages that the client reads of one list. No usable list has more pages, and a server that
/// sends a new cursor each time would never end its list.
pub const MAX_PAGES: usize = 1000;

/// The maximum total size in bytes of the pages of a list, without the last page: two messages of the default maximum
/// size. The limit keeps a server with many long pages from using up the client's memory.
pub const MAX_LIST_BYTES: usize = 128 * 1024 * 1024;
