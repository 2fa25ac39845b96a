/** The event bus outside: where events go that were written to the outbox. */
import type { ChangeMessage } from './change-message.ts'
import type { CloudEvent } from './envelope.ts'

export interface BusEvent {
  readonly topic: string
  readonly event: CloudEvent
}

/** All calls may be repeated, and throw SluiceError only: TRANSIENT `bus_unavailable` where the bus does not answer. */
export interface EventBus {
  /** False where the login of a tenant of that name would read another tenant's rows. Asks nobody. */
  admits(tenant: string): boolean
  /** Makes the topics, and lets the tenant's own login read them. All are there afterwards, or it throws. */
  provision(tenant: string, topics: readonly string[]): Promise<void>
  /** Removes every topic of the tenant, with what is in them, and the rights to them. */
  drop(tenant: string): Promise<void>
  /** In the order given, within a topic. Resolves once all are kept by the bus; what failed is to be sent again. */
  publish(events: readonly BusEvent[]): Promise<void>
  close(): Promise<void>
}

/** A topic of changed rows, and who may read it. */
export interface ChangeTopic {
  readonly name: string
  readonly tenant: string
  /** Principals that may; besides the runtime's own login nobody else. */
  readonly readers: readonly string[]
  /** Those who were given the right before; what an operator gave to others stays. */
  readonly formerReaders: readonly string[]
}

/** Where changed rows go. Calls may be repeated, and throw SluiceError only; `bus_unguarded` where rules are not kept. */
export interface ChangeBus {
  /** Makes the topic, its rules first. True where it was not there. */
  ensure(topic: ChangeTopic): Promise<boolean>
  /** Afterwards nobody can read what was in the topic until now; its rules stay. */
  empty(topic: string): Promise<void>
  /** Removes the topic with its rules. */
  remove(topic: string): Promise<void>
  /** A writer that fences every one that was opened before, in whichever process. */
  openWriter(): Promise<ChangeWriter>
  close(): Promise<void>
}

export interface ChangeWriter {
  /** All of the messages or none, in order. Resolves once all replicas have them. After an error the writer is spent. */
  write(messages: readonly ChangeMessage[]): Promise<void>
  close(): Promise<void>
}
