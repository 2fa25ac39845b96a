/** What a schema of Avro says, taken apart: names are resolved, and how large and how deep it may be is bounded. */
import { BrokenFile } from '../records.ts'

export interface Primitive {
  readonly kind: 'null' | 'boolean' | 'int' | 'long' | 'float' | 'double' | 'bytes' | 'string'
  readonly logical: Logical
}

export interface Fixed extends Named {
  readonly kind: 'fixed'
  readonly size: number
  readonly logical: Logical
}

export interface Enum extends Named {
  readonly kind: 'enum'
  readonly symbols: readonly string[]
  /** In place of a symbol that a reader does not know. */
  readonly fallback: string | null
}

/** Its fields are there once the whole schema is taken apart: it may stand within itself. */
export interface RecordNode extends Named {
  readonly kind: 'record'
  readonly fields: readonly Field[]
}

export interface Field {
  readonly name: string
  readonly aliases: readonly string[]
  readonly node: AvroNode
  /** As JSON has it; undefined: there is none. */
  readonly fallback: unknown
}

export type AvroNode =
  | Primitive
  | Fixed
  | Enum
  | RecordNode
  | { readonly kind: 'array' | 'map'; readonly items: AvroNode }
  | { readonly kind: 'union'; readonly branches: readonly AvroNode[] }

/** With its namespace, where it has one. */
interface Named {
  readonly name: string
  readonly aliases: readonly string[]
}

/** What a simple value stands for; of none `name` is ''. */
export interface Logical {
  readonly name: string
  readonly precision: unknown
  readonly scale: unknown
}

export const MAX_DEPTH = 32
const MAX_SCHEMAS = 20_000
const MAX_SYMBOLS = 100_000

type Json = Readonly<Record<string, unknown>>

export function wrongSchema(): BrokenFile {
  return new BrokenFile('its schema is none', 'Write it anew, with a schema of Avro.')
}

type Reviver = (name: string, value: unknown, context: { readonly source?: string }) => unknown

/** Whole numbers that a double cannot hold are bigints: a default may be one. */
const exactly: Reviver = (_, value, { source = '' }) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value

/** Throws BrokenFile. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text, exactly as Parameters<typeof JSON.parse>[1])
  } catch {
    throw wrongSchema()
  }
}

/** Throws BrokenFile. */
export function recordOf(node: AvroNode): RecordNode {
  if (node.kind === 'record') return node
  throw new BrokenFile('its values are no records', 'Write records.')
}

/** Of schemas that name each other: those that are named are taken apart before. */
export class Names {
  readonly #named = new Map<string, AvroNode>()
  #schemas = 0

  /** Throws BrokenFile. */
  parse(schema: unknown): AvroNode {
    return this.#node(schema, '', 0)
  }

  #node(schema: unknown, space: string, depth: number): AvroNode {
    this.#schemas += 1
    if (depth > MAX_DEPTH || this.#schemas > MAX_SCHEMAS)
      throw new BrokenFile('its schema is too large', `Write it with at most ${MAX_DEPTH} levels.`)
    if (typeof schema === 'string') return this.#byName(schema, space)
    if (Array.isArray(schema))
      return { kind: 'union', branches: schema.map((branch) => this.#node(branch, space, depth + 1)) }
    if (typeof schema !== 'object' || schema === null) throw wrongSchema()
    const about = schema as Json
    const { type } = about
    if (typeof type === 'object') return this.#node(type, space, depth + 1)
    switch (type) {
      case 'record':
      case 'error':
        return this.#record(about, space, depth)
      case 'enum':
        return this.#keep(enumOf(about, nameOf(about, space)))
      case 'fixed':
        return this.#keep(fixedOf(about, nameOf(about, space)))
      case 'array':
        return { kind: 'array', items: this.#node(about['items'], space, depth + 1) }
      case 'map':
        return { kind: 'map', items: this.#node(about['values'], space, depth + 1) }
    }
    if (typeof type !== 'string') throw wrongSchema()
    return isPrimitive(type) ? { kind: type, logical: logicalOf(about) } : this.#byName(type, space)
  }

  #byName(name: string, space: string): AvroNode {
    if (isPrimitive(name)) return { kind: name, logical: NO_LOGICAL }
    const near = this.#named.get(name.includes('.') || space === '' ? name : `${space}.${name}`)
    const found = near ?? this.#named.get(name)
    if (found === undefined) throw wrongSchema()
    return found
  }

  #keep<Node extends AvroNode & Named>(node: Node): Node {
    this.#named.set(node.name, node)
    return node
  }

  #record(about: Json, outer: string, depth: number): RecordNode {
    const given = about['fields']
    if (!Array.isArray(given)) throw wrongSchema()
    const fields: Field[] = []
    const record = this.#keep({ kind: 'record', ...nameOf(about, outer), fields } as const)
    const space = spaceOf(record.name)
    for (const field of given) {
      const { name, type, aliases, default: fallback } = (field ?? {}) as Json
      if (typeof name !== 'string') throw wrongSchema()
      fields.push({ name, aliases: textsOf(aliases), node: this.#node(type, space, depth + 1), fallback })
    }
    return record
  }
}

const PRIMITIVES = ['null', 'boolean', 'int', 'long', 'float', 'double', 'bytes', 'string'] as const
const isPrimitive = (name: string): name is Primitive['kind'] => (PRIMITIVES as readonly string[]).includes(name)

const NO_LOGICAL: Logical = { name: '', precision: 0, scale: 0 }

function logicalOf({ logicalType, precision, scale = 0 }: Json): Logical {
  return typeof logicalType === 'string' ? { name: logicalType, precision, scale } : NO_LOGICAL
}

const textsOf = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []

const spaceOf = (name: string) => name.slice(0, Math.max(0, name.lastIndexOf('.')))

function nameOf({ name, namespace, aliases }: Json, outer: string): Named {
  if (typeof name !== 'string') throw wrongSchema()
  const space = typeof namespace === 'string' ? namespace : outer
  const whole = (one: string, within: string) => (one.includes('.') || within === '' ? one : `${within}.${one}`)
  const own = whole(name, space)
  return { name: own, aliases: textsOf(aliases).map((one) => whole(one, spaceOf(own))) }
}

function fixedOf(about: Json, named: Named): Fixed {
  const { size } = about
  if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 0) throw wrongSchema()
  return { kind: 'fixed', ...named, size, logical: logicalOf(about) }
}

function enumOf({ symbols, default: fallback }: Json, named: Named): Enum {
  if (!Array.isArray(symbols) || symbols.length > MAX_SYMBOLS || !symbols.every((one) => typeof one === 'string'))
    throw wrongSchema()
  return { kind: 'enum', ...named, symbols, fallback: typeof fallback === 'string' ? fallback : null }
}
