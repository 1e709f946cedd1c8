//! Settings of the Gemini CLI that this program does not have.

/// Settings of the Gemini CLI that have no effect here. A name includes everything below it.
pub const UNSUPPORTED: &str = "\
    admin agents experimental extensions.workspacesWithMigrationNudge hooksConfig.notifications ide mcp.serverCommand modelConfigs output privacy telemetry \
    ui.accessibility.enableLoadingPhrases ui.autoThemeSwitching ui.customThemes ui.customWittyPhrases ui.dynamicWindowTitle \
    ui.errorVerbosity ui.footer ui.hideBanner ui.hideContextSummary ui.hideFooter ui.hideTips ui.hideWindowTitle \
    ui.incrementalRendering ui.inlineThinkingMode ui.loadingPhrases ui.showCitations ui.showCompatibilityWarnings \
    ui.showHomeDirectoryWarning ui.showLineNumbers ui.showMemoryUsage ui.showModelInfoInChat ui.showShortcutsHint \
    ui.showSpinner ui.showStatusInTitle ui.showUserIdentity ui.terminalBackgroundPollingInterval ui.useAlternateBuffer \
    ui.useBackgroundColor ui.useFullWidth \
    useWriteTodos advanced.autoConfigureMemory advanced.bugCommand advanced.dnsResolutionOrder advanced.ignoreLocalEnv \
    billing.overageStrategy context.discoveryMaxDirs context.fileFiltering.enableFuzzySearch \
    context.fileFiltering.enableRecursiveFileSearch context.importFormat \
    context.loadMemoryFromIncludeDirectories general.debugKeystrokeLogging general.devtools \
    general.enableAutoUpdate general.enableAutoUpdateNotification general.enableNotifications general.plan \
    general.preferredEditor general.retryFetchErrors general.sessionRetention general.vimMode model.skipNextSpeakerCheck \
    model.summarizeToolOutput security.allowedExtensions security.auth security.autoAddToPolicyByDefault \
    security.blockGitExtensions security.enableConseca security.environmentVariableRedaction security.toolSandboxing \
    tools.callCommand tools.disableLLMCorrection tools.discoveryCommand tools.sandbox tools.sandboxAllowedPaths \
    tools.sandboxNetworkAccess tools.shell.enableInteractiveShell tools.shell.enableShellOutputEfficiency tools.shell.pager \
    tools.shell.showColor tools.useRipgrep bugCommand mcpServerCommand preferredEditor sandbox selectedAuthType theme \
    toolCallCommand toolDiscoveryCommand \
    usageStatisticsEnabled vimMode";
