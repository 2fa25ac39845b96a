/**
 * Changed rows as messages: CloudEvents 1.0 in binary mode, one row each. The key is the row's primary key, the value the
 * row, or nothing where it is gone; everything else stands in headers.
 */
import { createHash } from 'node:crypto'
import type { BusMessage, ChangeSet, Column } from '@sluice/sdk'
import { rowJson } from './row-json.ts'

export type ChangeVariant = 'masked' | 'clear'

/** What a change topic is of. */
export interface ChangeStream {
  readonly tenant: string
  readonly productId: string
  readonly domain: string
  readonly product: string
  readonly variant: ChangeVariant
  readonly topic: string
}

/** What was committed, in the words of its headers. */
export interface ChangeEpoch {
  readonly epoch: number
  readonly version: string
  readonly committedAt: Date
}

const MAX_TOPIC_CHARACTERS = 249

/** What the names of all change topics of a tenant begin with, and no other tenant's: slugs hold no dots. */
export function changeTopicPrefix(tenant: string): string {
  return `sluice-changes.${tenant}.`
}

/**
 * `sluice-changes.{tenant}.{namespace}.{product}.{variant}`, with `-` for `_`: a bus may hold `a_b.c` and `a.b_c` for
 * one name, and no name of ours has a hyphen. Names beyond 249 characters, which no bus takes, are cut, and end in a hash.
 */
export function changeTopic(tenant: string, domain: string, product: string, variant: ChangeVariant): string {
  const end = `.${variant}`
  const name = `${changeTopicPrefix(tenant)}${domain.replaceAll('_', '-')}.${product.replaceAll('_', '-')}`
  if (name.length + end.length <= MAX_TOPIC_CHARACTERS) return name + end
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 16)
  return `${name.slice(0, MAX_TOPIC_CHARACTERS - end.length - hash.length - 1)}-${hash}${end}`
}

/** The messages of a change set, rows that are gone last. May be walked again: the ids are the same. */
export async function* changeMessages(
  stream: ChangeStream,
  epoch: ChangeEpoch,
  changes: ChangeSet,
): AsyncGenerator<BusMessage> {
  const { columns, primaryKey } = changes.schema
  const keys = primaryKey.map((name) => columns.findIndex((column) => column.name === name))
  const keyColumns = keys.map((index) => columns[index] as Column)
  const message = (key: string, value: string | null): BusMessage => ({
    topic: stream.topic,
    key,
    value,
    headers: headersOf(stream, epoch, key, value === null ? 'deleted' : 'upserted'),
  })
  for await (const batch of changes.upserts()) {
    for (let row = 0; row < batch.rowCount; row += 1) {
      const values = batch.columns.map((column) => column[row] ?? null)
      const own = keys.map((index) => values[index] ?? null)
      yield message(rowJson(keyColumns, own), rowJson(columns, values))
    }
  }
  for await (const batch of changes.deletes()) {
    for (let row = 0; row < batch.rowCount; row += 1) {
      const own = batch.columns.map((column) => column[row] ?? null)
      yield message(rowJson(keyColumns, own), null)
    }
  }
}

/** The id is of the row's key in this epoch: sent again, it is the same. */
function headersOf(
  { tenant, productId, domain, product, variant }: ChangeStream,
  { epoch, version, committedAt }: ChangeEpoch,
  key: string,
  what: 'upserted' | 'deleted',
): Readonly<Record<string, string>> {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, 24)
  return {
    ce_specversion: '1.0',
    ce_id: `${productId}.${variant}.${epoch}.${hash}`,
    ce_source: `/tenants/${tenant}/products/${productId}`,
    ce_type: `sluice.row.${what}`,
    ce_subject: `${domain}.${product}`,
    ce_time: committedAt.toISOString(),
    ce_tenantid: tenant,
    ce_variant: variant,
    ce_epoch: String(epoch),
    ce_productversion: version,
    ...(what === 'deleted' ? {} : { 'content-type': 'application/json; charset=UTF-8' }),
  }
}

/** Gathers what is sent at once: at most so many messages and characters, and always one. */
export async function* inBatches(
  messages: AsyncIterable<BusMessage>,
  most: { readonly messages: number; readonly characters: number },
): AsyncGenerator<readonly BusMessage[]> {
  let batch: BusMessage[] = []
  let characters = 0
  for await (const message of messages) {
    const size = message.key.length + (message.value?.length ?? 0)
    if (batch.length > 0 && (batch.length === most.messages || characters + size > most.characters)) {
      yield batch
      batch = []
      characters = 0
    }
    batch.push(message)
    characters += size
  }
  if (batch.length > 0) yield batch
}
