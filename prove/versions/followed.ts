/** A copy of a product that is kept by its stream of changes, over a change of versions. */
import type { Client } from '../../acceptance/client.ts'
import { type Pseudonyms, textOf } from './doors.ts'
import type { Row } from './oracle.ts'

export class Follower {
  readonly #ended = new AbortController()
  readonly #rows = new Map<string, Row>()
  readonly #pseudonyms: Pseudonyms
  /** Rows at each end of an epoch. */
  readonly #states: (readonly Row[])[] = []
  /** What ended it: a code. Null: it goes on. */
  problem: string | null = null
  #reading: Promise<void> = Promise.resolve()

  /** Names of columns: a delete names the key, with which rows are found. */
  #key: readonly string[]
  readonly #nextKey: readonly string[]

  #isReset = false

  /** @param nextKey of rows of the next version */
  constructor(pseudonyms: Pseudonyms, key: readonly string[], nextKey: readonly string[]) {
    this.#pseudonyms = pseudonyms
    this.#key = key
    this.#nextKey = nextKey
  }

  /** Ready when the first epoch is whole. */
  async begin(client: Client, product: string): Promise<void> {
    const path = `/api/v1/products/made.${product}/changes?from=start`
    const response = await client.begin(path, { accept: 'text/event-stream' }, this.#ended.signal)
    if (response.status !== 200) {
      const body = (await response.json()) as { readonly code: string }
      this.problem = body.code
      return
    }
    const first = Promise.withResolvers<void>()
    this.#reading = this.#read(response, first.resolve).finally(first.resolve)
    await first.promise
  }

  async #read(response: Response, tellFirst: () => void): Promise<void> {
    let rest = ''
    try {
      for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        rest += chunk
        for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
          this.#take(rest.slice(0, end))
          rest = rest.slice(end + 2)
          if (this.#states.length > 0) tellFirst()
        }
      }
    } catch (error) {
      if (!this.#ended.signal.aborted) throw error
    }
  }

  #take(text: string): void {
    const fields = new Map(
      text.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
    )
    const data = fields.get('data')
    if (data === undefined) return
    const told = JSON.parse(data)
    switch (fields.get('event')) {
      case 'upsert':
        if (this.#isReset) this.#key = this.#keyIn(told)
        this.#isReset = false
        this.#rows.set(this.#keyText(told), told)
        break
      case 'delete':
        this.#rows.delete(this.#keyText(told))
        break
      case 'reset':
        this.#rows.clear()
        this.#isReset = true
        break
      case 'problem':
        this.problem = told.code
        break
      case 'epoch':
        this.#states.push([...this.#rows.values()])
    }
  }

  /** After a reset rows are of the version before as well: its policy has changed before its rows do. */
  #keyIn(row: Row): readonly string[] {
    return this.#nextKey.every((name) => name in row) ? this.#nextKey : this.#key
  }

  #keyText(row: Row): string {
    return JSON.stringify(this.#key.map((name) => row[name]))
  }

  /** With the pseudonyms that are known by now. */
  get states(): readonly string[] {
    return this.#states.map((rows) => textOf(rows, this.#pseudonyms))
  }

  async end(): Promise<void> {
    this.#ended.abort()
    await this.#reading
  }
}
