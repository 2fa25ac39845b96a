/** Every key of the configuration, in the order in which it is described. */
import { Type } from 'typebox'
import { Auth, Cors, Masking } from './access.ts'
import { closed } from './closed.ts'
import { eventsOf, OpenLineage, Webhooks } from './events.ts'
import { Http } from './http.ts'
import { Limits, LogSpool, Mcp, Push } from './limits.ts'
import { exportsOf, ObjectStore } from './object-stores.ts'
import { Certificates, Plugins, Programs, Serving } from './plugins.ts'
import { computeOf, Database, dashboardsOf, POLICY_KEY, PolicyEndpoint } from './servers-beside.ts'
import { Upkeep } from './upkeep.ts'
import { Wire } from './wire.ts'

/** @param takesOthers whether plugins may bring servers whose settings are known only once they are loaded */
const schemaOf = (takesOthers: boolean) =>
  Type.Object(
    {
      data_dir: Type.String({ default: '.sluice', description: 'Folder for everything that is kept.' }),
      secrets_dir: Type.Optional(
        Type.String({
          description:
            'Folder of the keys that seal secrets, sign cursors and, of the embedded issuer, tokens. Runtimes on one registry share it. Default: data_dir.',
        }),
      ),
      host: Type.String({ default: '127.0.0.1', description: 'Address to listen on; 0.0.0.0 is every one.' }),
      port: Type.Integer({
        default: 8080,
        minimum: 0,
        maximum: 65_535,
        description: 'To listen on; 0 picks a free one.',
      }),
      http: Http,
      public_url: Type.Optional(Type.String({ description: 'The address that clients use, where it is another.' })),
      trusted_proxies: Type.Integer({
        default: 0,
        minimum: 0,
        maximum: 16,
        description: 'How many proxies in front append to X-Forwarded-For; 0 ignores the header.',
      }),
      log: Type.Object(
        {
          level: Type.Union(
            ['trace', 'debug', 'info', 'warn', 'error', 'silent'].map((level) => Type.Literal(level)),
            { default: 'info', description: 'Lines of this level and above are written.' },
          ),
          pretty: Type.Optional(Type.Boolean({ description: 'Default: on a terminal.' })),
          access: Type.Boolean({
            default: false,
            description:
              'A line for each request: who, which route, how it ended; no values of its path, query or body.',
          }),
        },
        closed,
      ),
      database: Database,
      catalog: Type.Object(
        {
          file_access: Type.Union(
            ['none', 'direct', 'signed'].map((name) => Type.Literal(name)),
            {
              default: 'direct',
              description:
                'How clients of the Iceberg catalog reach files. none: not at all, so that no table is loaded. direct: by their own rights to the folder or bucket. signed: each read is signed by the runtime, for the files of that table, at an object store that offers it; writes go through the runtime.',
            },
          ),
        },
        closed,
      ),
      auth: Auth,
      cors: Cors,
      plugins: Plugins,
      serving: Serving,
      network: Type.Object(
        {
          allow: Type.Array(Type.String(), {
            default: [],
            description: 'Private address ranges (CIDR) that connections may go to.',
          }),
          allow_loopback: Type.Optional(Type.Boolean({ description: 'Default: in embedded mode.' })),
          allow_cleartext_passwords: Type.Optional(
            Type.Boolean({ description: 'Passwords without verified TLS. Default: to loopback only.' }),
          ),
        },
        closed,
      ),
      folders: Type.Object(
        {
          allow: Type.Record(Type.String(), Type.Array(Type.String()), {
            default: {},
            description:
              'Folders of this machine, from the root, that connections of a tenant may read under, by its id. Default: none.',
          }),
        },
        closed,
      ),
      programs: Type.Optional(Programs),
      events: eventsOf(takesOthers),
      openlineage: Type.Optional(OpenLineage),
      masking: Masking,
      stop: Type.Object(
        {
          notice_ms: Type.Integer({
            default: 0,
            minimum: 0,
            maximum: 60_000,
            description: 'How long /readyz says 503 while everything is still answered: for balancers that ask it.',
          }),
          deadline_ms: Type.Integer({
            default: 30_000,
            minimum: 1_000,
            maximum: 600_000,
            description: 'For the whole stop, notice included; give a container some seconds more.',
          }),
        },
        closed,
      ),
      mcp: Mcp,
      exports: exportsOf(takesOthers),
      webhooks: Webhooks,
      wire: Wire,
      limits: Limits,
      push: Push,
      log_spool: LogSpool,
      object_store: ObjectStore,
      upkeep: Upkeep,
      [POLICY_KEY]: PolicyEndpoint,
      compute: computeOf(takesOthers),
      dashboards: Type.Optional(dashboardsOf()),
      metrics_token: Type.Optional(Type.String({ description: 'Bearer token for /metrics besides the admin role.' })),
      certificates: Certificates,
      walls: Type.Union([Type.Literal('required'), Type.Literal('not_required')], {
        default: 'required',
        description:
          'Where the kernel lacks Landlock or seccomp, a runtime takes one tenant and listens on this machine only. not_required: it does not, and all tenants have to trust each other.',
      }),
      allow_unproved: Type.Boolean({
        default: false,
        description: 'Switches on what no certificate proves. For development.',
      }),
    },
    closed,
  )

export const ConfigSchema = schemaOf(false)
export const SchemaWithOthers = schemaOf(true)
