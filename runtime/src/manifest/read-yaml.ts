import { Composer, type CST, type Document, isAlias, isMap, isScalar, isSeq, Lexer, type Node, Parser } from 'yaml'
import { isKept } from '../parsing/kept-numbers.ts'
import { syntaxError } from '../parsing/yaml-syntax.ts'
import type { Json, JsonObject, ManifestName, Path, Problem } from './problem.ts'
import { formatPath } from './problem.ts'

/**
 * YAML 1.2, core schema, one document, nothing clever: no tags, no merge keys, text keys only, each once. What an
 * author may send is bounded in bytes, tokens, nesting, and in what aliases unfold to, so that reading a hostile file
 * costs no more than reading a large honest one.
 */
export const YAML_LIMITS = {
  bytes: 256 * 1024,
  tokens: 60_000,
  depth: 32,
  aliases: 100,
  /** Nodes after aliases have been unfolded. */
  nodes: 50_000,
  problems: 100,
} as const

export interface Position {
  readonly line: number
  readonly column: number
}

/** A file that could be read: its content, and where each part of it stands. */
export interface YamlFile {
  readonly value: Json
  /** The place of the value at that path (or of its key), or of the nearest part around it that exists. */
  locate(path: Path, atKey?: boolean): Position
}

export type YamlReading =
  | { readonly ok: true; readonly file: YamlFile }
  | { readonly ok: false; readonly problems: readonly Problem[] }

/** UTF-16, which some shells and editors write, has null bytes. */
const NOT_UTF8 = 'Save the file in the encoding UTF-8.'

/** Reads one manifest. Never throws; reports every problem it can find, each with its place. */
export function readYaml(manifest: ManifestName, bytes: Uint8Array): YamlReading {
  const refuse = (message: string, position: Position = { line: 1, column: 1 }, hint?: string): YamlReading => ({
    ok: false,
    problems: [{ manifest, ...position, path: '', message, ...(hint === undefined ? {} : { hint }) }],
  })
  if (bytes.byteLength > YAML_LIMITS.bytes) {
    return refuse(`the file is larger than ${YAML_LIMITS.bytes / 1024} KiB`)
  }
  const text = decode(bytes)
  if (text === null) return refuse('the file is not UTF-8 text', undefined, NOT_UTF8)
  const nul = text.indexOf('\0')
  if (nul >= 0) return refuse('the file holds a null byte', positionsIn(text)(nul), NOT_UTF8)
  if (text.trim() === '') return refuse('the file is empty', undefined, `Begin it with: ${firstLines(manifest)}`)
  return compose(manifest, text, refuse)
}

type Refuse = (message: string, position?: Position, hint?: string) => YamlReading

function compose(manifest: ManifestName, text: string, refuse: Refuse): YamlReading {
  const documents = documentsOf(text)
  if (documents === 'too many tokens') return refuse('the file has too many parts', undefined, 'Make it shorter.')
  const at = positionsIn(text)
  const document = documents[0]
  if (document === undefined) return refuse('the file is empty', undefined, `Begin it with: ${firstLines(manifest)}`)
  if (document.errors.length > 0) return { ok: false, problems: syntaxProblems(manifest, document, at) }
  const second = documents[1]
  if (second !== undefined) {
    return refuse('the file holds more than one document', at(second.range[0]), 'Remove what follows the line "---".')
  }
  const reader = new TreeReader(manifest, at)
  const value = reader.read(document.contents)
  if (reader.problems.length > 0 || value === undefined) return { ok: false, problems: reader.problems }
  if (value === null) return refuse('the file is empty', undefined, `Begin it with: ${firstLines(manifest)}`)
  return { ok: true, file: { value, locate: (path, atKey) => reader.locate(path, atKey ?? false) } }
}

function firstLines(manifest: ManifestName): string {
  return `apiVersion: svc/v1, kind: ${manifest[0]?.toUpperCase()}${manifest.slice(1)}.`
}

function decode(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return null
  }
}

/** Tokens are counted before trees are built from them: building costs far more than counting. */
function documentsOf(text: string): readonly Document.Parsed[] | 'too many tokens' {
  const parser = new Parser()
  const composer = new Composer({ version: '1.2', schema: 'core', merge: false, uniqueKeys: false, intAsBigInt: true })
  const tokens: CST.Token[] = []
  let count = 0
  for (const lexeme of new Lexer().lex(text)) {
    count += 1
    if (count > YAML_LIMITS.tokens) return 'too many tokens'
    tokens.push(...parser.next(lexeme))
  }
  tokens.push(...parser.end())
  return withoutStackTraces(() => [...composer.compose(tokens, true, text.length)] as Document.Parsed[])
}

/** A broken file makes an error object for each of its characters; their stack traces would take seconds. */
function withoutStackTraces<T>(work: () => T): T {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  try {
    return work()
  } finally {
    Error.stackTraceLimit = limit
  }
}

function syntaxProblems(
  manifest: ManifestName,
  document: Document.Parsed,
  at: (offset: number) => Position,
): readonly Problem[] {
  return document.errors.slice(0, YAML_LIMITS.problems).map((error) => ({
    manifest,
    ...at(error.pos[0]),
    path: '',
    ...syntaxError(error),
  }))
}

/** Positions by offset. Counted here, since the parser's own counter errs in files that are not well formed. */
function positionsIn(text: string): (offset: number) => Position {
  const starts = [0]
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return (offset) => {
    const inside = Math.min(Math.max(0, offset), text.length)
    let [low, high] = [0, starts.length - 1]
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if ((starts[middle] ?? 0) <= inside) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: inside - (starts[low] ?? 0) + 1 }
  }
}

interface Place {
  readonly key: number
  readonly value: number
}

/** Turns the tree into plain values and remembers where each stood. Used once, for one document. */
class TreeReader {
  readonly problems: Problem[] = []
  readonly #manifest: ManifestName
  readonly #at: (offset: number) => Position
  /** By path; an alias's parts stand where the alias stands. */
  readonly #places = new Map<string, Place>()
  readonly #anchors = new Map<string, Node>()
  #nodes = 0
  #aliases = 0
  #exhausted = false

  constructor(manifest: ManifestName, at: (offset: number) => Position) {
    this.#manifest = manifest
    this.#at = at
  }

  /** The root is read like any other node; undefined where something in it was refused. */
  read(root: Node | null): Json | undefined {
    return this.#read(root, [], { key: 0, value: 0 }, false)
  }

  locate(path: Path, atKey: boolean): Position {
    for (let length = path.length; length >= 0; length--) {
      const place = this.#places.get(placeKey(path.slice(0, length)))
      if (place) return this.#at(atKey || length < path.length ? place.key : place.value)
    }
    return { line: 1, column: 1 }
  }

  #read(node: Node | null, path: Path, outer: Place, aliased: boolean): Json | undefined {
    const offset = node?.range?.[0] ?? outer.value
    const place = { key: outer.key, value: aliased ? outer.value : offset }
    if (this.#tooMuch(path, place)) return undefined
    this.#places.set(placeKey(path), place)
    if (node === null) return null
    if (isAlias(node)) return this.#alias(node.source, path, place)
    if (node.tag !== undefined && !aliased) {
      // Tags ask for types that JSON has not; the harmless ones are refused too, so that one rule holds.
      return this.#refuse('YAML tags are not understood here', path, place, 'Remove the word that begins with "!".')
    }
    const value = this.#content(node, path, place, aliased)
    // Only now: an alias inside of its own anchor would never end.
    if (!aliased && node.anchor !== undefined) this.#anchors.set(node.anchor, node)
    return value
  }

  #content(node: Node, path: Path, place: Place, aliased: boolean): Json | undefined {
    if (isScalar(node)) return this.#scalar(node.value, node.source, path, place)
    if (isSeq<Node | null>(node)) return this.#list(node.items, path, place, aliased)
    if (isMap<Node, Node | null>(node)) return this.#map(node.items, path, place, aliased)
    return this.#refuse('this kind of YAML node is not understood', path, place)
  }

  #tooMuch(path: Path, place: Place): boolean {
    if (this.#exhausted) return true
    this.#nodes += 1
    if (path.length <= YAML_LIMITS.depth && this.#nodes <= YAML_LIMITS.nodes) return false
    this.#exhausted = true
    const deep = path.length > YAML_LIMITS.depth
    this.#refuse(
      deep ? `the file is nested deeper than ${YAML_LIMITS.depth} levels` : 'the file unfolds to too many values',
      path.slice(0, 8),
      place,
    )
    return true
  }

  #alias(name: string, path: Path, place: Place): Json | undefined {
    this.#aliases += 1
    if (this.#aliases > YAML_LIMITS.aliases) {
      this.#exhausted = true
      return this.#refuse(`the file uses more than ${YAML_LIMITS.aliases} aliases`, path, place)
    }
    const target = this.#anchors.get(name)
    if (target === undefined)
      return this.#refuse(`no anchor &${name.slice(0, 60)} stands before this alias`, path, place)
    return this.#read(target, path, place, true)
  }

  /** @param source as it is written: a number that loses digits stays a text, which its column's type reads */
  #scalar(value: unknown, source: string | undefined, path: Path, place: Place): Json | undefined {
    if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value.toString()
    if (typeof value === 'number') {
      if (!Number.isFinite(value)) return this.#refuse('infinity and NaN are not numbers here', path, place)
      return source === undefined || isKept(source, value) ? value : source
    }
    if (typeof value === 'string') {
      if (value.isWellFormed() && !value.includes('\0')) return value
      return this.#refuse('the text holds a character that is not allowed', path, place)
    }
    return typeof value === 'boolean' || value === null
      ? value
      : this.#refuse('this value is not understood', path, place)
  }

  #list(items: readonly (Node | null)[], path: Path, place: Place, aliased: boolean): Json | undefined {
    const list: Json[] = []
    let whole = true
    for (const [index, item] of items.entries()) {
      const inner = aliased ? place : { key: item?.range?.[0] ?? place.value, value: place.value }
      const value = this.#read(item, [...path, index], inner, aliased)
      if (value === undefined) whole = false
      else list.push(value)
      if (this.#exhausted) return undefined
    }
    return whole ? list : undefined
  }

  #map(
    items: readonly { readonly key: Node; readonly value: Node | null }[],
    path: Path,
    place: Place,
    aliased: boolean,
  ): Json | undefined {
    const map: Record<string, Json> = {}
    let whole = true
    for (const item of items) {
      const offset = aliased ? place.value : (item.key?.range?.[0] ?? place.value)
      const key = this.#key(item.key, map, path, { key: offset, value: offset })
      if (key === undefined) {
        whole = false
        continue
      }
      const after = aliased ? place.value : (item.value?.range?.[0] ?? offset)
      const value = this.#read(item.value, [...path, key], { key: offset, value: after }, aliased)
      if (value === undefined) whole = false
      else map[key] = value
      if (this.#exhausted) return undefined
    }
    return whole ? (map satisfies JsonObject) : undefined
  }

  #key(node: Node, map: JsonObject, path: Path, place: Place): string | undefined {
    if (!isScalar(node) || typeof node.value === 'object') {
      return this.#refuseKey('a key must be plain text', path, place)
    }
    const key = String(node.value)
    if (key === '<<') return this.#refuseKey('merge keys are not understood', path, place, 'Write the fields out.')
    // Assigning it would change the object's prototype instead of adding a field.
    if (key === '__proto__') return this.#refuseKey('unknown field "__proto__"', path, place)
    if (!key.isWellFormed() || key.includes('\0')) return this.#refuseKey('the key is not text', path, place)
    if (Object.hasOwn(map, key)) {
      return this.#refuseKey(`"${key.slice(0, 60)}" stands here twice`, [...path, key], place, 'Remove one of the two.')
    }
    return key
  }

  #refuseKey(message: string, path: Path, place: Place, hint?: string): undefined {
    return this.#refuse(message, path, place, hint)
  }

  #refuse(message: string, path: Path, place: Place, hint?: string): undefined {
    if (this.problems.length >= YAML_LIMITS.problems) return undefined
    this.problems.push({
      manifest: this.#manifest,
      ...this.#at(place.value),
      path: formatPath(path),
      message,
      ...(hint === undefined ? {} : { hint }),
    })
    return undefined
  }
}

function placeKey(path: Path): string {
  return JSON.stringify(path.map(String))
}
