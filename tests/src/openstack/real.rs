//! The real Keystone and Neutron, with `SQLite`: one process and one thread each.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use http::Method;
use serde_json::{Value, json};

use super::admin::Admin;
use super::rest::Rest;
use super::{ADMIN, KEYSTONE, NEUTRON, SERVICE};
use crate::assets::{self, OpenStackPrograms};
use crate::host::{Host, Process, Spec};
use crate::observe::now;
use crate::runner::Skip;

/// The longest time for one step of the set-up, on a busy machine.
const STEP: Duration = Duration::from_mins(2);

/// Keystone and Neutron on a host.
#[derive(Debug)]
pub struct Real {
    /// Keystone.
    pub keystone: Process,
    /// Neutron.
    pub neutron: Process,
    /// The administrator.
    pub admin: Admin,
    keys: PathBuf,
    rest: Rest,
}

/// A host that gets them.
struct Site<'a> {
    host: &'a Host,
    programs: OpenStackPrograms,
    dir: PathBuf,
}

impl Real {
    /// Sets them up on a host and starts them, with an external network of these addresses.
    ///
    /// # Errors
    /// [`Skip`] where Python or its packages cannot be had; otherwise a step fails.
    pub async fn start(host: &Host, cidr: &str) -> Result<Self> {
        let programs = tokio::task::spawn_blocking(assets::openstack).await?.map_err(|error| match error {
            error @ assets::Error::Missing { .. } => anyhow::Error::new(Skip(error.to_string())),
            error => error.into(),
        })?;
        let dir = host.dir().join("openstack");
        let site = Site { host, programs, dir };
        site.configure()?;
        tokio::try_join!(site.keystone_tables(), site.neutron_tables())?;
        let keystone = site.serve("keystone", "keystone.wsgi.api", 5000)?;
        let neutron = site.serve("neutron", "neutron.wsgi.api", 9696)?;
        let rest = Rest::from(host.netns());
        answers(&rest, &format!("{KEYSTONE}/v3"), &keystone).await?;
        let admin = Admin::bare(rest.clone()).await?;
        let service = json!({"project": {"name": "service", "domain_id": "default"}});
        let project = admin.make(&format!("{KEYSTONE}/v3/projects"), &service).await?;
        admin.user_with_role(("neutron", SERVICE), &project, "admin").await?;
        let network = json!({"service": {"type": "network", "name": "neutron"}});
        let id = admin.make(&format!("{KEYSTONE}/v3/services"), &network).await?;
        let endpoint = json!({"endpoint": {
            "service_id": id, "interface": "public", "region_id": "RegionOne", "url": NEUTRON,
        }});
        admin.make(&format!("{KEYSTONE}/v3/endpoints"), &endpoint).await?;
        answers(&rest, &format!("{NEUTRON}/"), &neutron).await?;
        let admin = Admin::set_up(rest.clone(), cidr).await?;
        Ok(Self { keystone, neutron, admin, keys: site.dir.join("fernet"), rest })
    }

    /// Takes Neutron away.
    ///
    /// # Errors
    /// It does not end.
    pub async fn stop_neutron(&self) -> Result<()> {
        self.neutron.kill()?;
        self.neutron.ended(STEP).await?;
        Ok(())
    }

    /// Brings Neutron back.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_neutron(&self) -> Result<()> {
        self.neutron.start()?;
        answers(&self.rest, &format!("{NEUTRON}/"), &self.neutron).await
    }

    /// Gives Keystone other keys: no token is good any more that was given before.
    ///
    /// # Errors
    /// The keys cannot be exchanged.
    pub fn forget_tokens(&self) -> Result<()> {
        let from = self.keys.with_file_name("credential");
        for key in ["0", "1"] {
            // Any key of this form will do.
            fs::copy(from.join(key), self.keys.join(key))?;
        }
        Ok(())
    }
}

/// Waits until a service answers.
async fn answers(rest: &Rest, url: &str, process: &Process) -> Result<()> {
    let deadline = now() + STEP;
    loop {
        let said = match rest.ask(Method::GET, url, "", &Value::Null).await {
            Ok(reply) if reply.status == 200 => return Ok(()),
            Ok(reply) => format!("{} {}", reply.status, reply.body),
            Err(error) => format!("{error:#}"),
        };
        if !process.is_running() || now() > deadline {
            bail!("{url}: {said}{}", process.log_tail(20));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Site<'_> {
    fn configure(&self) -> Result<()> {
        let dir = self.dir.display();
        for folder in ["", "state", "lock", "fernet", "credential", "receipts"] {
            fs::create_dir_all(self.dir.join(folder))?;
        }
        let environment = self.programs.environment.display();
        let write = |name: &str, text: String| fs::write(self.dir.join(name), text);
        write(
            "keystone.conf",
            format!(
                "[database]\nconnection = sqlite:///{dir}/keystone.sqlite\n[token]\nprovider = fernet\n\
                 [fernet_tokens]\nkey_repository = {dir}/fernet\n[credential]\nkey_repository = {dir}/credential\n\
                 [fernet_receipts]\nkey_repository = {dir}/receipts\n[cache]\nenabled = false\n\
                 [identity]\npassword_hash_rounds = 4\n"
            ),
        )?;
        // Tokens are not cached: a revoked one is refused at once.
        write(
            "neutron.conf",
            format!(
                "[DEFAULT]\ncore_plugin = ml2\nservice_plugins = router\nauth_strategy = keystone\n\
                 transport_url = fake://\nrpc_workers = 0\nrpc_state_report_workers = 0\n\
                 notify_nova_on_port_status_changes = false\nnotify_nova_on_port_data_changes = false\n\
                 dhcp_agent_notification = false\nstate_path = {dir}/state\n\
                 api_paste_config = {environment}/etc/neutron/api-paste.ini\n\
                 [database]\nconnection = sqlite:///{dir}/neutron.sqlite\n[oslo_concurrency]\nlock_path = {dir}/lock\n\
                 [quotas]\nquota_floatingip = -1\nquota_port = -1\n\
                 [keystone_authtoken]\nwww_authenticate_uri = {KEYSTONE}/v3\nauth_url = {KEYSTONE}/v3\n\
                 auth_type = password\nusername = neutron\npassword = {SERVICE}\nproject_name = service\n\
                 user_domain_id = default\nproject_domain_id = default\ntoken_cache_time = -1\n"
            ),
        )?;
        write(
            "ml2.ini",
            "[ml2]\ntype_drivers = flat,local,vlan\ntenant_network_types = local\nmechanism_drivers = logger\n\
             extension_drivers =\n"
                .to_owned(),
        )?;
        Ok(())
    }

    async fn keystone_tables(&self) -> Result<()> {
        let config = format!("--config-file={}", self.dir.join("keystone.conf").display());
        let keys = ["--keystone-user=root", "--keystone-group=root"];
        let url = format!("{KEYSTONE}/v3/");
        let steps: [(&str, Vec<String>); 4] = [
            ("db_sync", vec![]),
            ("fernet_setup", keys.map(str::to_owned).into()),
            ("credential_setup", keys.map(str::to_owned).into()),
            (
                "bootstrap",
                vec![
                    format!("--bootstrap-password={ADMIN}"),
                    format!("--bootstrap-admin-url={url}"),
                    format!("--bootstrap-internal-url={url}"),
                    format!("--bootstrap-public-url={url}"),
                    "--bootstrap-region-id=RegionOne".to_owned(),
                ],
            ),
        ];
        for (step, args) in steps {
            let manage = self.programs.environment.join("bin/keystone-manage");
            let spec = self.python(&format!("keystone-{step}"), &manage).arg(&config).arg(step).args(args);
            self.done(spec).await?;
        }
        Ok(())
    }

    async fn neutron_tables(&self) -> Result<()> {
        let url = format!("sqlite:///{}", self.dir.join("neutron.sqlite").display());
        let spec = self.python("neutron-schema", &self.programs.starters.join("neutron_schema.py")).arg(url);
        self.done(spec).await
    }

    fn serve(&self, name: &str, module: &str, port: u16) -> Result<Process> {
        let dir = self.dir.display().to_string();
        let spec = self
            .python(name, &self.programs.starters.join("serve.py"))
            .args([module, "127.0.0.1", &port.to_string()])
            .env("OS_KEYSTONE_CONFIG_DIR", &dir)
            .env("OS_KEYSTONE_CONFIG_FILES", "keystone.conf")
            .env("OS_NEUTRON_CONFIG_DIR", &dir)
            .env("OS_NEUTRON_CONFIG_FILES", "neutron.conf;ml2.ini");
        Ok(self.host.start(spec)?)
    }

    fn python(&self, name: &str, program: &Path) -> Spec {
        Spec::new(name, self.programs.python()).arg(program.display().to_string())
    }

    /// Runs a program to its end.
    async fn done(&self, spec: Spec) -> Result<()> {
        let process = self.host.start(spec)?;
        let (how, _) = process.ended(STEP).await?;
        ensure!(how == "ended well", "{}: {how}{}", process.name(), process.log_tail(20));
        Ok(())
    }
}
