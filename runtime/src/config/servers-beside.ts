/** Servers beside the runtime: databases, engines that run transforms, and the one of dashboards. */
import { type Static, type TObject, type TUnsafe, Type } from 'typebox'
import { closed } from './closed.ts'
import { OWN_SERVICES, type Settings, serviceByName, settingsType, shownSettings } from './services.ts'

export const Database = Type.Object(
  {
    registry_url: Type.Optional(
      Type.String({
        description: 'PostgreSQL of the registry, itself and no pooler before it; absent: the embedded server.',
      }),
    ),
    catalog_admin_url: Type.Optional(
      Type.String({
        description: 'A login of the registry’s server that may make roles, for logins of SQL catalogs.',
      }),
    ),
    serving_owner_url: Type.Optional(
      Type.String({
        description: 'Login of the serving database that owns its tables; absent: the embedded server’s.',
      }),
    ),
    serving_writer_url: Type.Optional(Type.String({ description: 'Login there that writes rows and owns nothing.' })),
    serving_reader_url: Type.Optional(
      Type.String({ description: 'Login there that reads rows, under row security, and owns nothing.' }),
    ),
  },
  closed,
)

/** The engine that asks, by the name of its plugin: under it the configuration tells of the endpoint. */
export const POLICY_KEY = 'trino'

export const PolicyEndpoint = Type.Object(
  {
    policy_host: Type.String({ default: '127.0.0.1', description: 'Where the engine reaches its policy endpoint.' }),
    policy_port: Type.Integer({ default: 8181, minimum: 0, maximum: 65_535, description: 'At which port there.' }),
    policy_cert_file: Type.Optional(
      Type.String({ description: 'Certificate of the policy endpoint (PEM); absent: there is no such endpoint.' }),
    ),
    policy_key_file: Type.Optional(Type.String({ description: 'Its private key (PEM).' })),
    policy_client_ca_file: Type.Optional(
      Type.String({ description: 'What signed the certificates of those who may ask (PEM).' }),
    ),
    issuer: Type.Optional(
      Type.String({
        description:
          'The `iss` of the tokens that the engine accepts: its users may be what this issuer may claim. Needed where several are configured.',
      }),
    ),
  },
  closed,
)

/** By the name of the engine its settings; one at most. */
export const computeOf = (takesOthers: boolean) =>
  serviceByName('compute', takesOthers) as TUnsafe<Readonly<Record<string, Settings>>>

const [DRIVERS, IS_OWN] = [Object.keys(OWN_SERVICES.dashboard), (name: string) => name in OWN_SERVICES.dashboard]

/** Of those that come with the runtime, the first. */
export const DEFAULT_DASHBOARD_DRIVER = DRIVERS[0] as string

/** Of every driver; the rest of `dashboards` are the driver's settings. */
const OF_DASHBOARDS = {
  public_url: Type.Optional(Type.String({ description: 'The address that people use, where it is another.' })),
  issuer: Type.Optional(
    Type.String({
      description:
        'The `iss` of the issuer that people log in to the dashboard server through: grants of its people are roles there. Needed where several are configured.',
    }),
  ),
  database_admin_url: Type.Optional(
    Type.String({
      description: 'A login of the serving database’s server that may make roles. Absent: of the embedded server.',
    }),
  ),
  database_host: Type.Optional(
    Type.String({
      description: 'Where the dashboard server finds the serving database; absent: where the runtime does.',
    }),
  ),
  database_port: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 65_535, description: 'At which port there; absent: as the runtime does.' }),
  ),
}

const DRIVER = `The plugin of kind dashboard that makes them. Default: ${DEFAULT_DASHBOARD_DRIVER}.`
const OwnKeys = Type.Object({ driver: Type.Optional(Type.String()), ...OF_DASHBOARDS })

type DashboardSettings = Static<typeof OwnKeys> & Settings

/**
 * @param name of the driver, as the configuration has it
 * @param takesOthers whether it may be one whose settings are known only once it is loaded
 */
export function dashboardsOf(name = DEFAULT_DASHBOARD_DRIVER, takesOthers = false): TUnsafe<DashboardSettings> {
  const isOther = takesOthers && !IS_OWN(name)
  const { properties = {}, required = [] } =
    OWN_SERVICES.dashboard[IS_OWN(name) ? name : DEFAULT_DASHBOARD_DRIVER] ?? {}
  const settings = settingsType({ type: 'object', properties: isOther ? {} : properties, required })
  const driver = isOther
    ? Type.String({ description: DRIVER })
    : Type.Union(
        DRIVERS.map((own) => Type.Literal(own)),
        { description: DRIVER },
      )
  const schema = Type.Object(
    { driver: Type.Optional(driver), ...(settings as TObject).properties, ...OF_DASHBOARDS },
    {
      additionalProperties: isOther ? Type.Unknown() : false,
      description:
        'The server of dashboards. Absent: there is none, and products that want one are deployed without, with a warning.',
    },
  )
  return Type.Unsafe<DashboardSettings>(schema)
}

/** What of `dashboards` is the driver's. */
export function settingsOfDriver(dashboards: Settings): Settings {
  const isOwn = (key: string) => key === 'driver' || key in OF_DASHBOARDS
  return Object.fromEntries(Object.entries(dashboards).filter(([key]) => !isOwn(key)))
}

/** As they may be shown. */
export function shownDashboards(dashboards: DashboardSettings): DashboardSettings {
  const { driver = DEFAULT_DASHBOARD_DRIVER } = dashboards
  return { ...dashboards, ...shownSettings('dashboard', driver, settingsOfDriver(dashboards)) }
}
