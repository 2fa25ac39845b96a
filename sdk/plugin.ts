/**
 * A plugin is a plain object: metadata, two schemas, a capability table and `open`. It is the default export of the
 * module that its package.json names under `sluice.plugins`, so that the runtime can read the manifest and check the
 * SDK's range before any of its code is loaded.
 */
import type { Capabilities } from './capabilities.ts'
import type { Connector } from './connector.ts'
import type { OperationInput } from './declared-operation.ts'
import type { Host } from './host.ts'
import type { ProgramStarter } from './programs.ts'
import type { ReadOperation } from './read-plan.ts'
import type { Column, TableSchema } from './schema.ts'
import type { ServiceKind } from './service.ts'
import type { ServingStore } from './store.ts'

/** The version of this contract. Minor versions only add; a plugin names a range of it in its manifest. */
export const SDK_VERSION = '1.1.0'

/**
 * JSON Schema (draft 2020-12), the part that settings need. `x-secret: true` marks a value that is stored encrypted
 * and never shown. `x-folder: true` marks a path of the machine, from its root, under which a connector reads: the
 * operator says which ones a tenant may name, and only that folder is open to the connector.
 */
export interface JsonSchema {
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean'
  readonly description?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | JsonSchema
  readonly items?: JsonSchema
  readonly enum?: readonly (string | number | boolean)[]
  readonly const?: string | number | boolean
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly pattern?: string
  readonly 'x-secret'?: boolean
  readonly 'x-folder'?: boolean
}

/** `pointer` is a JSON pointer into the endpoint's config: `/index_columns/0`. */
export interface ConfigProblem {
  readonly pointer: string
  readonly message: string
  readonly hint?: string
}

/** What a read is going to ask for. */
export interface ReadKind {
  readonly operation: ReadOperation
  readonly interval?: string
}

export interface ServingPlugin<Settings = unknown, Config = unknown> {
  readonly kind: 'serving'
  /** The endpoint type it serves: `lookup`, `timeseries`, `analytics`, `realtime`, or one of its own. */
  readonly type: string
  /** The driver's name in the configuration: `postgresql`. */
  readonly name: string
  readonly version: string
  readonly description: string
  /** Of the store: where it is and how to log in. */
  readonly settingsSchema: JsonSchema
  /** Of an endpoint's `config` in serving.yaml. */
  readonly configSchema: JsonSchema
  readonly capabilities: Capabilities
  /** What the schema cannot say: do the columns exist, do they fit. Pure; reports everything at once. */
  checkConfig?(config: Config, schema: TableSchema): readonly ConfigProblem[]
  /**
   * The columns that a read may name, where they are not just the dataset's: those of a history, or of a kept
   * aggregate. Null where nothing is kept for that interval. Pure.
   */
  readColumns?(config: Config, schema: TableSchema, read: ReadKind): readonly Column[] | null
  /**
   * The columns of the dataset that decide which rows a declared operation gives for this input, in which order, or what
   * its added columns hold. Who may not see one of them in clear is refused. Throws INVALID_DATA for what the schema of
   * the input cannot say. Pure. Needed where an operation is declared.
   */
  selects?(asked: OperationInput<Config>): readonly string[]
  /**
   * Connects. Throws CONFIG for settings that cannot be right, TRANSIENT where the store does not answer within
   * its time-out. Does not provision anything.
   */
  open(settings: Settings, host: Host): Promise<ServingStore<Config>>
}

export interface ConnectorPlugin<Settings = unknown> {
  readonly kind: 'connector'
  /** The `connector_type` of a connection: `postgresql`. */
  readonly type: string
  readonly name: string
  readonly version: string
  readonly description: string
  /** Of a connection's config; secrets carry `x-secret`. */
  readonly settingsSchema: JsonSchema
  readonly capabilities: {
    readonly modes: readonly ('full' | 'incremental' | 'cdc')[]
    /** Rows come as CSV made by the source. */
    readonly csv?: true
  }
  /** Does no I/O; connections are made by the calls. */
  open(settings: Settings, host: ConnectorHost): Promise<Connector>
}

/** Where a connection may go: decided by the runtime, not by the tenant. */
export interface NetworkPolicy {
  /** The address to connect to, resolved once; throws PERMISSION `address_refused`. */
  resolve(
    host: string,
    port: number,
    signal: AbortSignal,
  ): Promise<{ readonly address: string; readonly family: 4 | 6 }>
  /** Whether a password may travel without verified TLS to that address. */
  allowsCleartextPassword(address: string): boolean
}

export interface ConnectorHost extends Pick<Host, 'clock' | 'logger' | 'metrics' | 'randomBytes' | 'faultPoint'> {
  readonly network: NetworkPolicy
  /** Absent where programs of others cannot be run. */
  readonly programs?: ProgramStarter
}

/** What stands under `sluice` in a plugin package's package.json. */
export interface PluginManifest {
  /** Semver range of the contract: `^1.0.0`. */
  readonly sdk: string
  /** By export subpath (`.` or `./postgresql`). */
  readonly plugins: Readonly<
    Record<string, { readonly kind: 'serving' | 'connector'; readonly type: string; readonly name: string }>
  >
}

export type DeclaredPlugin = PluginManifest['plugins'][string]

export interface DeclaredService {
  readonly kind: ServiceKind
  readonly name: string
}

/** A `PluginManifest` of a package that may have services too. */
export interface PackageManifest extends Pick<PluginManifest, 'sdk'> {
  readonly plugins: Readonly<Record<string, DeclaredPlugin | DeclaredService>>
}

/** Returns the plugin as it is; gives its parts their types. */
export function defineServingPlugin<Settings, Config>(
  plugin: Omit<ServingPlugin<Settings, Config>, 'kind'>,
): ServingPlugin<Settings, Config> {
  return { ...plugin, kind: 'serving' }
}

/** Returns the plugin as it is; gives its parts their types. */
export function defineConnector<Settings>(plugin: Omit<ConnectorPlugin<Settings>, 'kind'>): ConnectorPlugin<Settings> {
  return { ...plugin, kind: 'connector' }
}
