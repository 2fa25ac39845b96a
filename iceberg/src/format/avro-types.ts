import type { AvroBytes } from './avro-bytes.ts'
import { type Int64, int64 } from './int64.ts'

/**
 * Values of an Avro file, decoded by the schema of whoever wrote it, who may have meant no good: a list may announce more
 * items than there are bytes, a type may stand in itself, values may take no bytes at all. Every step is bounded.
 */
export type Decode = (from: AvroBytes) => unknown

const MAX_TYPES = 20_000
const MAX_DEPTH = 64
/** As avsc, which writes, takes them. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*$/

const PRIMITIVES: Readonly<Record<string, Decode>> = {
  null: () => null,
  boolean: (from) => from.byte() !== 0,
  int: (from) => Number(from.long()),
  long: (from): Int64 => int64(from.long()),
  float: (from) => from.take(4).readFloatLE(),
  double: (from) => from.take(8).readDoubleLE(),
  bytes: (from) => Buffer.from(from.bytes()),
  string: (from) => from.bytes().toString('utf8'),
}

/** Throws a plain Error for what is no schema, or one that no manifest needs. */
export function decoderFor(schema: unknown): Decode {
  return new Compiler().compile(schema, '', 0)
}

type Described = Readonly<Record<string, unknown>>

class Compiler {
  readonly #named = new Map<string, Decode>()
  #types = 0

  compile(schema: unknown, space: string, depth: number): Decode {
    if (++this.#types > MAX_TYPES || depth > MAX_DEPTH) throw new Error('the Avro schema has too many types')
    if (typeof schema === 'string') return this.#reference(schema, space)
    if (Array.isArray(schema)) return union(schema.map((branch) => this.compile(branch, space, depth + 1)))
    if (typeof schema !== 'object' || schema === null) throw new Error('the Avro schema holds what is no type')
    return this.#described(schema as Described, space, depth)
  }

  #reference(name: string, space: string): Decode {
    const known = PRIMITIVES[name] ?? this.#named.get(fullName(name, space)) ?? this.#named.get(name)
    if (known === undefined) throw new Error('the Avro schema names a type that it does not have')
    return known
  }

  #described(type: Described, space: string, depth: number): Decode {
    switch (type['type']) {
      case 'record':
        return this.#record(type, space, depth)
      case 'array':
        return list(this.compile(type['items'], space, depth + 1))
      case 'map':
        return map(this.compile(type['values'], space, depth + 1))
      case 'fixed':
        return this.#keep(type, space, fixed(type['size']))
      case 'enum':
        return this.#keep(type, space, symbol(type['symbols']))
      default:
        // What a type means beside what it is made of, as a decimal of bytes, is for whoever reads the values.
        return this.compile(type['type'], space, depth + 1)
    }
  }

  #record(type: Described, space: string, depth: number): Decode {
    const own = typeof type['namespace'] === 'string' ? type['namespace'] : space
    const fields: { readonly name: string; readonly decode: Decode }[] = []
    const decode: Decode = (from) =>
      from.within(fields.length, () => {
        const record: Record<string, unknown> = {}
        for (const field of fields) record[field.name] = field.decode(from)
        return record
      })
    this.#keep(type, space, decode)
    for (const field of listOf(type['fields'])) {
      const { name } = field as { readonly name?: unknown }
      if (typeof name !== 'string' || !NAME.test(name) || name === '__proto__')
        throw new Error('an Avro field has no name')
      fields.push({ name, decode: this.compile((field as Described)['type'], own, depth + 1) })
    }
    return decode
  }

  /** Before what is in it: it may stand in itself. */
  #keep(type: Described, space: string, decode: Decode): Decode {
    const { name, namespace = space } = type
    if (typeof name !== 'string' || !NAME.test(name)) throw new Error('an Avro type has no name')
    const full = fullName(name, String(namespace))
    if (this.#named.has(full)) throw new Error('the Avro schema has two types of one name')
    this.#named.set(full, decode)
    return decode
  }
}

function fullName(name: string, space: string): string {
  return space === '' || name.includes('.') ? name : `${space}.${name}`
}

function listOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error('the Avro schema lacks a list')
  return value
}

function union(branches: readonly Decode[]): Decode {
  return (from) => {
    const branch = branches[Number(from.long())]
    if (branch === undefined) throw new Error('an Avro value is of no type of its union')
    return from.within(0, () => branch(from))
  }
}

function list(item: Decode): Decode {
  return (from) =>
    from.within(0, () => {
      const items: unknown[] = []
      from.eachItem(() => items.push(item(from)))
      return items
    })
}

function map(value: Decode): Decode {
  return (from) =>
    from.within(0, () => {
      const entries: [string, unknown][] = []
      from.eachItem(() => entries.push([from.bytes().toString('utf8'), value(from)]))
      return Object.fromEntries(entries)
    })
}

function fixed(size: unknown): Decode {
  if (!Number.isSafeInteger(size) || (size as number) < 0) throw new Error('an Avro type has no size')
  return (from) => Buffer.from(from.take(size as number))
}

function symbol(symbols: unknown): Decode {
  const names = listOf(symbols)
  return (from) => {
    const name = names[Number(from.long())]
    if (name === undefined) throw new Error('an Avro value is none of its symbols')
    return name
  }
}
