import { readFile } from 'node:fs/promises'
import {
  type Compute,
  type ComputeInput,
  type ComputeTable,
  type ComputeTransform,
  checkSqlText,
  type ReadQuery,
  type RunningTransform,
  type TenantScope,
  type TextRow,
  type TransformedRows,
  tenantOf,
} from '@sluice/sdk'
import type { PythonSettings } from './settings.ts'
import { type Answer, answersOf, type Bounds, type Job } from './statement-process.ts'
import { authored, logicalType, rowsSql, sqlType, typesSql } from './statements.ts'

interface Asked extends ComputeTransform {
  readonly inputs: readonly (ComputeInput & { readonly table?: ComputeTable })[]
}

const CHECK_TIMEOUT_MS = 60_000

/** It answers no readers: `query` is not there. */
export class PythonCompute implements Compute {
  readonly #settings: PythonSettings

  constructor(settings: PythonSettings) {
    this.#settings = settings
  }

  async check(transform: ComputeTransform, signal: AbortSignal): Promise<readonly string[]> {
    return (await this.#typesOf(transform, CHECK_TIMEOUT_MS, signal)).map(logicalType)
  }

  /** DuckDB reads what DuckDB reads. */
  read(query: string): ReadQuery {
    checkSqlText({ text: query, leadBytes: 0 })
    return { sql: query, isCommon: true }
  }

  transform(transform: RunningTransform): TransformedRows {
    const lost = new Map<string, number>()
    return { pages: this.#pagesOf(transform, lost), lost: () => Object.fromEntries(lost) }
  }

  /** Whoever reads a statement ends it. */
  async close(): Promise<void> {}

  async *#pagesOf(transform: RunningTransform, lost: Map<string, number>): AsyncGenerator<readonly TextRow[]> {
    const { scope, timeoutMs, signal, columns } = transform
    const endsAtMs = performance.now() + timeoutMs
    const { sql, marked } = rowsSql(transform, await this.#typesOf(transform, timeoutMs, signal))
    const leftMs = Math.max(1, Math.round(endsAtMs - performance.now()))
    const job = { ...this.#jobOf(transform, sql), catalog: await this.#catalogOf(scope) }
    for await (const answer of answersOf(job, this.#bounds(leftMs, signal))) {
      if (!('rows' in answer) || answer.rows.length === 0) continue
      for (const row of answer.rows) countLost(row, columns.length, marked, lost)
      yield answer.rows.map((row) => row.slice(0, columns.length))
    }
  }

  /** As DuckDB writes them, over inputs without rows. */
  async #typesOf({ inputs, ...rest }: ComputeTransform, timeoutMs: number, signal: AbortSignal) {
    const transform = { ...rest, inputs: inputs.map(({ alias, columns, where }) => ({ alias, columns, where })) }
    const answers = answersOf(this.#jobOf(transform, typesSql(transform)), this.#bounds(timeoutMs, signal))
    for await (const answer of answers) return typesIn(answer)
    throw new Error('the engine told no types')
  }

  async #catalogOf(scope: TenantScope): Promise<Job['catalog']> {
    const text = await readFile(this.#settings.catalog_file, 'utf8')
    return JSON.parse(text.replaceAll('{tenant}', tenantOf(scope))) as Job['catalog']
  }

  /** It reads no table yet. */
  #jobOf(transform: Asked, sql: string): Job {
    const inputs = transform.inputs.map(({ alias, columns, where, table = null }) => ({
      ...{ alias, where, table },
      columns: columns.map(({ name, type }) => ({ name, type: sqlType(type) })),
    }))
    const { memory_mb } = this.#settings
    return { catalog: {}, memory_mb, inputs, authored: authored(transform), sql }
  }

  #bounds(timeoutMs: number, signal: AbortSignal): Bounds {
    return { python: this.#settings.python, timeoutMs, signal }
  }
}

function typesIn(answer: Answer): readonly string[] {
  if ('types' in answer) return answer.types
  throw new Error('the engine told no types')
}

function countLost(row: TextRow, from: number, marked: readonly string[], lost: Map<string, number>): void {
  for (const [at, name] of marked.entries()) if (row[from + at] !== null) lost.set(name, (lost.get(name) ?? 0) + 1)
}
