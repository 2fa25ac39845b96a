/**
 * What the runtime asks of a server that shows people dashboards. The runtime decides what is shown and to whom, and keeps the
 * rows: for every dataset it makes a login of its database that reads that dataset and nothing else. A driver tells its
 * server of datasets, and whom it may show each to.
 */
import type { Column } from './schema.ts'
import type { ServicePlugin } from './service.ts'

/** One copy of a product's rows: the clear one, or one with masks. Equal ids mean one dataset for as long as it exists. */
export interface DashboardDatasetId {
  readonly productId: string
  /** `clear`, or the name of a masked copy. */
  readonly variant: string
}

export interface DashboardDataset extends DashboardDatasetId {
  readonly tenant: string
  /** The group of the product's name, and the name: people know it as `domain.product`. */
  readonly domain: string
  readonly product: string
  readonly description: string
  /** Of the driver's templates, checked to be one of its names; null: the dataset alone, and no dashboard of it. */
  readonly template: string | null
  /** How long answers may be kept, and how often dashboards renew themselves; null: as the server is set. */
  readonly refreshIntervalMs: number | null
  /** Whether former states of rows are kept beside the current ones, which the column `is_current` tells. */
  readonly hasHistory: boolean
  /** Of the product. What a mask has taken away is not in the table. */
  readonly columns: readonly DashboardColumn[]
  readonly table: DashboardTable
  /**
   * `postgresql://login:password@host:port/database?sslmode=…`, as the server reaches it. A secret: it belongs to the server
   * alone, and with each `put` there is a new password.
   */
  readonly address: string
}

export interface DashboardColumn extends Column {
  /** `identity`, `dimension`, `measure`, `time` or `attribute`. */
  readonly role: string
  /** Its class: `public`, `pii.email`. In a masked copy the values are masked already. */
  readonly classification: string
  readonly description: string
}

/** The view that the dataset's login reads. */
export interface DashboardTable {
  readonly schema: string
  readonly name: string
  /** In their order, with PostgreSQL's types; without the column of the tenant. */
  readonly columns: readonly { readonly name: string; readonly type: string }[]
  /** A column besides: in every row the tenant, a text. */
  readonly tenantColumn: string
}

/** Whom a dataset may be shown to: these, and nobody else, whatever rights they have in the server. */
export interface DashboardAudience {
  /** Whose rows the audience may see. */
  readonly tenant: string
  /**
   * Names that stand for teams and people of the tenant, at most 64 characters: `sluice:acme:team:svc-viewers`,
   * `sluice:acme:user:…`, or a hash of what is longer. Whoever logs people in to the server gives them these names.
   */
  readonly roles: readonly string[]
  /** Those that may have been given the dataset before. */
  readonly formerRoles: readonly string[]
}

/** The dashboards that products can ask for by name in serving.yaml. Pure, and known without a server. */
export interface DashboardTemplates {
  readonly names: readonly string[]
  /** What the template needs and these columns have not, as the end of a sentence; null where nothing is missing. */
  missing(template: string, columns: readonly DashboardColumn[]): string | null
}

export interface DashboardServer {
  /**
   * Logs in, for the changes of one product. Throws TRANSIENT `dashboards_unavailable`, CONFIG `dashboards_login_refused`;
   * the runtime shows both to developers of the product, and tries again.
   */
  open(signal: AbortSignal): Promise<DashboardSession>
  /**
   * Where people find the dataset's dashboard. Pure.
   * @param publicUrl of the server, where people use another address than the settings have
   * @returns null where there is no one address of it
   */
  linkTo(dataset: DashboardDatasetId, publicUrl: string | null): string | null
  /** As `RunningService` says. */
  ping?(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** Throws as `open`, and CONFIG `dashboards_refused`. What the server itself says stays in the cause: it may hold values. */
export interface DashboardSession {
  /**
   * Makes the dataset and its dashboard, or changes them to this; then the audience may see it and nobody else. The login may
   * give no rows before this has ended. Repeatable: it is asked again after failures, and of what is as it should be.
   */
  put(dataset: DashboardDataset, audience: DashboardAudience): Promise<void>
  /** Removes it with all that was made for it. Repeatable; what is not there is removed. */
  remove(dataset: DashboardDatasetId): Promise<void>
}

export interface DashboardPlugin<Settings = unknown> extends ServicePlugin<'dashboard', Settings, DashboardServer> {
  readonly templates: DashboardTemplates
}

/** Returns the plugin as it is; gives its parts their types. */
export function defineDashboard<Settings>(plugin: Omit<DashboardPlugin<Settings>, 'kind'>): DashboardPlugin<Settings> {
  return { ...plugin, kind: 'dashboard' }
}
