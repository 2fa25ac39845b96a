/** Events as the outside sees them: CloudEvents 1.0, JSON format. */
import type { BusMessage } from '@sluice/sdk'

export const EVENT_KINDS = ['tenant', 'deployment', 'ingestion', 'materialization', 'quality', 'audit'] as const

export type EventKind = (typeof EVENT_KINDS)[number]

export interface CloudEvent {
  readonly specversion: '1.0'
  /** Unique among all events. */
  readonly id: string
  readonly source: string
  /** `sluice.materialization.committed`. */
  readonly type: string
  /** The id of the object it is about. */
  readonly subject?: string
  /** UTC, RFC 3339. */
  readonly time: string
  readonly datacontenttype: 'application/json'
  /** The tenant. */
  readonly tenantid: string
  /** 1, 2, 3 … within the tenant, without gaps; as a decimal text, which is how the extension is defined. */
  readonly sequence: string
  /** Of events about a product: 1, 2, 3 … within it, without gaps. */
  readonly productsequence?: string
  /** Of events that a request gave rise to: the W3C trace context that came with it. */
  readonly traceparent?: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface NewEvent {
  readonly tenant: string
  readonly kind: EventKind
  /** What happened, in the past tense: `committed`. */
  readonly name: string
  readonly subject?: string
  /** Of the request that it tells of, where one came with it. */
  readonly traceparent?: string | null
  /** JSON; names, ids and numbers, never a row's values or a secret. */
  readonly data?: Readonly<Record<string, unknown>>
}

export interface EventRow {
  readonly id: string
  readonly tenant: string
  readonly type: string
  readonly subject: string | null
  readonly at: Date
  readonly data: Readonly<Record<string, unknown>>
  readonly sequence: number
  readonly product_sequence: number | null
  readonly traceparent: string | null
}

export function toCloudEvent(row: EventRow): CloudEvent {
  return {
    specversion: '1.0',
    id: row.id,
    source: `/tenants/${row.tenant}`,
    type: row.type,
    ...(row.subject === null ? {} : { subject: row.subject }),
    time: row.at.toISOString(),
    datacontenttype: 'application/json',
    tenantid: row.tenant,
    sequence: String(row.sequence),
    ...(row.product_sequence === null ? {} : { productsequence: String(row.product_sequence) }),
    ...(row.traceparent === null ? {} : { traceparent: row.traceparent }),
    data: row.data,
  }
}

/** What the names of all topics of a tenant begin with, and no other tenant's: slugs hold no dots. */
export function topicPrefix(tenant: string): string {
  return `sluice.${tenant}.`
}

/** The event bus's topic for a kind of event of a tenant. */
export function topicName(tenant: string, kind: EventKind): string {
  return `${topicPrefix(tenant)}${kind}`
}

const STRUCTURED = { 'content-type': 'application/cloudevents+json; charset=UTF-8' } as const

/** In structured mode: the event whole is the value. What is told of one thing has one key, and so stays in order. */
export function toBusMessage(event: CloudEvent): BusMessage {
  const topic = topicName(event.tenantid, event.type.split('.')[1] as EventKind)
  return { topic, key: event.subject ?? event.tenantid, value: JSON.stringify(event), headers: STRUCTURED }
}
