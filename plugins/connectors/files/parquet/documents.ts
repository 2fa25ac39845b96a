/** Columns that are trees: the entries of one row, leaf by leaf, put together to a document. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { cutOff } from '../byte-reader.ts'
import { MAX_RECORD_BYTES } from '../records.ts'
import { jsonOf } from '../typed-text.ts'
import type { Entry, LeafReader } from './leaf-reader.ts'
import { elementNode, type Leaf, type Node, REPETITION } from './schema.ts'

/** Between two looks at whatever else waits. */
const ENTRIES_A_TURN = 16_384

/** Null: it would be longer than a row may be. */
export async function nextDocument(node: Node, readers: readonly LeafReader[]): Promise<string | null> {
  const room = { left: MAX_RECORD_BYTES }
  const rows = new Map<Leaf, RowEntries>()
  for (const reader of readers) rows.set(reader.leaf, new RowEntries(await entriesOfRow(reader, room)))
  return room.left < 0 ? null : new Assembly(rows).whole(node)
}

/** All are read; where they are too many, none is kept. */
async function entriesOfRow(reader: LeafReader, room: { left: number }): Promise<readonly Entry[]> {
  const entries: Entry[] = []
  for (let count = 0; reader.hasEntry || (await reader.load()); count += 1) {
    if ((reader.peek() === 0) === count > 0) {
      if (count > 0) break
      throw cutOff('a page of it')
    }
    const entry = reader.nextEntry()
    room.left -= (entry.text?.length ?? 0) + reader.leaf.nameCharacters + 1
    if (room.left >= 0) entries.push(entry)
    else entries.length = 0
    if (count % ENTRIES_A_TURN === ENTRIES_A_TURN - 1) await nextTurn()
  }
  return entries
}

class RowEntries {
  readonly #entries: readonly Entry[]
  #at = 0

  constructor(entries: readonly Entry[]) {
    this.#entries = entries
  }

  /** At its end another row would begin. */
  get repetition(): number {
    return this.#entries[this.#at]?.repetition ?? 0
  }

  get definition(): number {
    const entry = this.#entries[this.#at]
    if (entry === undefined) throw cutOff('a page of it')
    return entry.definition
  }

  next(): string | null {
    const entry = this.#entries[this.#at]
    if (entry === undefined) throw cutOff('a page of it')
    this.#at += 1
    return entry.text
  }
}

class Assembly {
  readonly #rows: ReadonlyMap<Leaf, RowEntries>

  constructor(rows: ReadonlyMap<Leaf, RowEntries>) {
    this.#rows = rows
  }

  whole(node: Node): string {
    if (node.repetition === REPETITION.repeated) return `[${this.#each(node, () => this.#body(node)).join(',')}]`
    if (node.repetition === REPETITION.optional && this.#first(node).definition < node.maxDefinition)
      return this.#none(node)
    return this.#body(node)
  }

  #first({ leaves }: Node): RowEntries {
    return this.#of(leaves[0])
  }

  #of(leaf: Leaf | undefined): RowEntries {
    const row = leaf === undefined ? undefined : this.#rows.get(leaf)
    if (row === undefined) throw cutOff()
    return row
  }

  #none({ leaves }: Node): string {
    for (const leaf of leaves) this.#of(leaf).next()
    return 'null'
  }

  #each(repeated: Node, one: () => string): readonly string[] {
    const first = this.#first(repeated)
    if (first.definition < repeated.maxDefinition) {
      this.#none(repeated)
      return []
    }
    const parts = [one()]
    while (first.repetition === repeated.maxRepetition) parts.push(one())
    return parts
  }

  #body(node: Node): string {
    if (node.shape === 'value') return this.#value(node)
    if (node.shape === 'list') {
      const { repeated, inner } = elementNode(node)
      return `[${this.#each(repeated, () => (inner === null ? this.#body(repeated) : this.whole(inner))).join(',')}]`
    }
    if (node.shape === 'map') return `{${this.#pairs(node).join(',')}}`
    return `{${node.children.map((child) => `${JSON.stringify(child.name)}:${this.whole(child)}`).join(',')}}`
  }

  #value({ leaves }: Node): string {
    const [leaf] = leaves
    const text = this.#of(leaf).next()
    if (leaf === undefined || text === null) throw cutOff('a page of it')
    return jsonOf(text, leaf.scalar.type)
  }

  /** Names are texts in JSON, whatever keys were. */
  #pairs(node: Node): readonly string[] {
    const [pairs] = node.children
    const [key, value] = pairs?.children ?? []
    if (pairs === undefined || key === undefined || value === undefined) throw cutOff()
    return this.#each(pairs, () => {
      const name = this.whole(key)
      return `${name.startsWith('"') ? name : JSON.stringify(name)}:${this.whole(value)}`
    })
  }
}
