/**
 * Answers of two deployments, brought into one form. What each must have of its own is replaced by what it stands for:
 * times of commits and snapshots by their epoch, hashes by the row in which they come first, a store's name by its type.
 */
import type { Json } from '../../acceptance/client.ts'
import { DOMAIN, isMasked, type ParityDeployment, READERS, type Reader } from './deployments.ts'
import type { Read } from './reads.ts'
import { HASHED, KEY, TABLES } from './tables.ts'

const MAX_PAGES = 40

export interface Compared {
  /** As it was sent, but for its pages. */
  readonly question: string
  readonly status: number
  readonly rows: number
  /** All that the answer says, page by page. */
  readonly said: string
}

/** Numbers are kept as they were written. */
function parseExactly(text: string): Json {
  const exact = (_: string, value: unknown, context: { readonly source?: string }) =>
    typeof value === 'number' ? `#${context.source}` : value
  return JSON.parse(text, exact as never)
}

export class Answers {
  readonly #deployment: ParityDeployment
  readonly #hashes = new Map<string, string>()

  constructor(deployment: ParityDeployment) {
    this.#deployment = deployment
  }

  /** Learns which row each hash stands for. Readers of the same clearance see the same hashes. */
  async learnHashes(): Promise<void> {
    for (const reader of READERS.filter((one) => isMasked(one) || one === 'named')) {
      for (const table of TABLES) {
        const hashed = table.columns.filter(({ name }) => HASHED.has(name)).map(({ name }) => name)
        if (hashed.length === 0) continue
        for (const { snapshotId, epoch } of this.#deployment.epochs.get(table.name) ?? [])
          await this.#learn(reader, `${DOMAIN}.${table.name}`, hashed, snapshotId, epoch)
      }
    }
  }

  async #learn(reader: Reader, table: string, hashed: readonly string[], snapshotId: string, epoch: number) {
    const sql = `select ${KEY}, ${hashed.join(', ')} from ${table} order by ${KEY}`
    const { text } = await this.#deployment.ask(reader, '/api/v1/query', { sql, as_of: snapshotId })
    for (const [key, ...cells] of parseExactly(text).rows as string[][])
      for (const [at, cell] of cells.entries())
        if (cell !== null && !this.#hashes.has(cell))
          this.#hashes.set(cell, `hash of ${hashed[at]} in ${table} ${key}, ${epoch}`)
  }

  async to(read: Read): Promise<Compared> {
    const pages: Json[] = []
    let rows = 0
    let cursor: string | null = null
    let status = 0
    const path = read.path(this.#deployment)
    const statement = read.body?.(this.#deployment)
    do {
      const next: string = cursor === null ? path : `${path}&cursor=${encodeURIComponent(cursor)}`
      const answer = await this.#deployment.ask(read.reader, next, statement)
      const body = parseExactly(answer.text)
      status = answer.status
      rows += (body.data ?? body.rows ?? []).length
      cursor = body.next_cursor ?? null
      pages.push(this.#comparable(body, read))
    } while (cursor !== null && pages.length < MAX_PAGES)
    const question = `${path} ${JSON.stringify(statement ?? '')}`
    return { question, status, rows, said: JSON.stringify(pages, null, 1) }
  }

  #comparable(body: Json, read: Read): Json {
    if (body.code !== undefined) {
      const { request_id: _, instance: __, ...refusal } = body
      return refusal
    }
    if (read.kind === 'sql') return { ...body, rows: this.#cells(body.rows), meta: this.#queryMeta(body.meta) }
    const { as_of: _, freshness: __, ...meta } = body.meta
    const known = this.#epochOf(read.product, meta.snapshot_id)
    const ttl = meta.ttl_remaining_s === undefined ? {} : { ttl_remaining_s: withinDays(meta.ttl_remaining_s, 2) }
    const store = String(meta.store).split(':')[0]
    return {
      data: body.data.map((row: Json) => this.#row(row, read.product)),
      meta: { ...meta, ...ttl, store, snapshot_id: known },
      hasMore: body.next_cursor !== null,
    }
  }

  #queryMeta({ elapsed_ms: _, engine: __, epochs: ___, freshness: ____, snapshots, ...meta }: Json): Json {
    const entries = Object.entries(snapshots as Record<string, string>).map(([name, snapshot]) => {
      return [name, this.#epochOf(name.split(/[.@]/)[1] ?? '', snapshot)] as const
    })
    return { ...meta, snapshots: Object.fromEntries(entries.sort(([left], [right]) => (left < right ? -1 : 1))) }
  }

  #epochOf(product: string, snapshotId: string): number | undefined {
    return this.#deployment.epochs.get(product)?.find((one) => one.snapshotId === snapshotId)?.epoch
  }

  #row(row: Json, product: string): Json {
    const entries = Object.entries(row).map(([name, value]) => {
      if (name === 'valid_from' || name === 'valid_to') return [name, this.#commitOf(product, value as string | null)]
      return [name, this.#cells(value)]
    })
    return Object.fromEntries(entries)
  }

  #commitOf(product: string, instant: string | null): string | null {
    if (instant === null) return null
    const known = this.#deployment.epochs
      .get(product)
      ?.find(({ committedAt }) => Date.parse(committedAt) === Date.parse(instant))
    return known === undefined ? `no commit: ${instant}` : `epoch ${known.epoch}`
  }

  #cells(value: Json): Json {
    if (typeof value === 'string') return this.#hashes.get(value) ?? value
    return Array.isArray(value) ? value.map((one) => this.#cells(one)) : value
  }
}

/** How long a value lives on is another second on each. */
function withinDays(seconds: string, days: number): string {
  const left = Number(seconds.slice(1))
  return left > 0 && left <= days * 86_400 ? `at most ${days} days` : `wrong: ${seconds}`
}
