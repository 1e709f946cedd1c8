//! Options for operators: logs and metrics.

use super::Settings;
use crate::base::log_line::LogFormat;
use crate::task::access::AccessMode;
use ::core::net::SocketAddr;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationOptions {
    pub access_log: Option<AccessLogTarget>,
    pub log_format: Option<LogFormat>,
    /// The address that serves metrics without credentials.
    pub metrics_listen: Option<SocketAddr>,
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessLogTarget {
    Off,
    /// Between the lines of the log.
    Log,
    File(PathBuf),
}

impl AccessLogTarget {
    /// The value of `--access-log`.
    pub fn parse(text: &str) -> Option<AccessLogTarget> {
        match text {
            "" => None,
            "off" => Some(AccessLogTarget::Off),
            "-" => Some(AccessLogTarget::Log),
            file => Some(AccessLogTarget::File(file.into())),
        }
    }
}

impl Settings {
    /// Where the access log goes. A server that only its own user can reach has none unless it is asked for.
    pub fn access_log(&self) -> AccessLogTarget {
        let default = match self.access.mode() {
            AccessMode::Local => AccessLogTarget::Off,
            AccessMode::Token => AccessLogTarget::Log,
        };
        self.operation.access_log.clone().unwrap_or(default)
    }

    /// The format of the log: that of Google Cloud on Cloud Run, which sets `K_SERVICE`.
    pub fn log_format(&self, env: &dyn Fn(&str) -> Option<String>) -> LogFormat {
        let default = if env("K_SERVICE").is_some() { LogFormat::Gcp } else { LogFormat::Text };
        self.operation.log_format.unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_of_cloud_run_is_chosen_there_unless_another_is_asked_for() {
        let on_cloud_run = |name: &str| (name == "K_SERVICE").then(|| "agent".to_owned());
        let mut settings = Settings::default();
        assert_eq!(settings.log_format(&|_| None), LogFormat::Text);
        assert_eq!(settings.log_format(&on_cloud_run), LogFormat::Gcp);
        settings.operation.log_format = Some(LogFormat::Json);
        assert_eq!(settings.log_format(&on_cloud_run), LogFormat::Json);
    }

    #[test]
    fn an_access_log_is_off_in_the_log_or_in_a_file() {
        assert_eq!(Settings::default().access_log(), AccessLogTarget::Off);
        assert_eq!(AccessLogTarget::parse("-"), Some(AccessLogTarget::Log));
        assert_eq!(AccessLogTarget::parse("off"), Some(AccessLogTarget::Off));
        assert_eq!(AccessLogTarget::parse("./off"), Some(AccessLogTarget::File("./off".into())));
        assert_eq!(AccessLogTarget::parse(""), None);
    }
}
