/**
 * The event bus: where events of tenants, and the rows that change, are carried to for whoever reads them there. What is
 * carried, under which names and in which form is the runtime's, a contract with readers; a driver makes topics, gives
 * rights to them, and keeps messages as they come.
 */
import type { ServicePlugin } from './service.ts'

export type EventBusPlugin<Settings = unknown> = ServicePlugin<'event-bus', Settings, EventBus>

/** Names of topics are ASCII letters, digits, `.` and `-`, of at most 249 characters. */
export interface BusMessage {
  readonly topic: string
  /** What it tells of: within a topic, messages of one key stay in the order in which they were given. */
  readonly key: string
  /** JSON; null: what the key names is gone. */
  readonly value: string | null
  readonly headers: Readonly<Record<string, string>>
}

/** Slugs hold no dots and are never used again, so that no name of another tenant begins as these prefixes do. */
export interface BusTenant {
  readonly slug: string
  /** What the names of all topics of its events begin with. */
  readonly events: string
  /** What the names of all topics of its changed rows begin with. */
  readonly changes: string
}

/**
 * An opened bus. Opening does no I/O: a bus that is away stops nobody but the relays and the making of tenants. All calls
 * may be repeated, and throw SluiceError only: TRANSIENT `bus_unavailable` where the bus does not answer, within 12 s, and CONFIG
 * `bus_unguarded` where its settings ask for rights that it does not keep.
 */
export interface EventBus {
  /** False where the login of a tenant of that name would read another tenant's rows. Asks nobody. */
  admits(tenant: string): boolean
  /** Makes the topics, and lets the tenant's own login read them. All are there afterwards, or it throws. */
  provision(tenant: BusTenant, topics: readonly string[]): Promise<void>
  /** Removes every topic of the tenant, of changed rows too, with what is in them and the rights to them. */
  drop(tenant: BusTenant): Promise<void>
  /** In the order given, within a topic. Resolves once all are kept by the bus; what failed is sent again, whole. */
  publish(messages: readonly BusMessage[]): Promise<void>
  /**
   * Absent: the bus cannot shut late writers out, or keep readers from what is not theirs. Where its settings ask for
   * `change_topics`, the runtime does not start.
   */
  readonly changes?: ChangeBus
  /** As `RunningService` says. */
  ping?(signal: AbortSignal): Promise<void>
  /** Not for longer than some seconds, whether the bus answers or not. Closes `changes` too; writers are closed before. */
  close(): Promise<void>
}

/** Who may read change topics, with `{tenant}` in it; null: no rights are given. */
export interface ChangeReaders {
  /** Reads what every member of the tenant may see. */
  readonly reader: string | null
  /** Reads rows in clear as well; null: there are no topics of those. */
  readonly cleared: string | null
}

/** A topic of changed rows, and who may read it. */
export interface ChangeTopic {
  readonly name: string
  /** What the names of all change topics of its tenant begin with. */
  readonly prefix: string
  /** Logins that may; besides the runtime's own nobody else. */
  readonly readers: readonly string[]
  /** Those who were given the right before; what an operator gave to others stays. */
  readonly formerReaders: readonly string[]
}

/**
 * Where changed rows go: of each key the newest message stays for ever. Throws as `EventBus` does, and INVALID_DATA
 * `change_too_large` for a row that the bus does not take.
 */
export interface ChangeBus {
  /** Whether the settings ask for change topics. False: those that were made are removed, and none is made. */
  readonly isOn: boolean
  readonly readers: ChangeReaders
  /** Makes the topic, its rights first. True where it was not there. */
  ensure(topic: ChangeTopic): Promise<boolean>
  /** Afterwards nobody can read what was in the topic until now; its rights stay. */
  empty(topic: string): Promise<void>
  /** Removes the topic with its rights. */
  remove(topic: string): Promise<void>
  /** A writer that fences every one that was opened before, in whichever process. */
  openWriter(): Promise<ChangeWriter>
}

export interface ChangeWriter {
  /** All of the messages or none, in order. Resolves once all replicas have them. After an error the writer is spent. */
  write(messages: readonly BusMessage[]): Promise<void>
  close(): Promise<void>
}

/** Returns the plugin as it is; gives its parts their types. */
export function defineEventBus<Settings>(plugin: Omit<EventBusPlugin<Settings>, 'kind'>): EventBusPlugin<Settings> {
  return { ...plugin, kind: 'event-bus' }
}
