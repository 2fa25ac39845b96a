import type { Host } from './host.ts'
import type { JsonSchema } from './plugin.ts'

/**
 * What the runtime works with besides stores and connectors: the bus that events go to, the server that shows dashboards,
 * where the files of the lake lie, an engine that runs transforms. Of each kind a runtime has one at most, which its
 * configuration names.
 */
export const SERVICE_KINDS = ['compute', 'dashboard', 'event-bus', 'object-store'] as const
export type ServiceKind = (typeof SERVICE_KINDS)[number]

/** Time, log, metrics and a folder of its own; one of these asks no engine for rows. */
export type ServiceHost = Omit<Host, 'lakeEngine'>

/** What each has, once it is opened, beside what its kind asks for. */
export interface RunningService {
  /**
   * Asks the server for no more than tells that it works; since 1.1. Resolves where it does, and throws as other calls of the
   * kind do. It is asked every few seconds, and given up after five. Absent: nobody knows how the server is, before it is
   * needed.
   */
  ping?(signal: AbortSignal): Promise<void>
  close(): Promise<void> | void
}

/** A plugin of such a kind. Its package names it under `sluice.plugins` by kind and name, and a runtime loads it where it is chosen. */
export interface ServicePlugin<Kind extends ServiceKind, Settings, Service> {
  readonly kind: Kind
  /** By which the configuration chooses it: `events: { kafka: … }`. */
  readonly name: string
  readonly version: string
  readonly description: string
  /**
   * An object's. Values of the configuration come as it says: texts of the environment as numbers, truth values and lists,
   * and what is left out as its default.
   */
  readonly settingsSchema: JsonSchema
  /** Throws CONFIG for settings that cannot be right. What is not reached yet is no failure, where the kind does not say so. */
  open(settings: Settings, host: ServiceHost): Promise<Service>
}
