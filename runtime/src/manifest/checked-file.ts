import type { Finding, Json, ManifestName, Path } from './problem.ts'
import { isJsonObject, valueAt } from './problem.ts'
import { checkShape, type Schema } from './shape-check.ts'

/** One entry of a list in a manifest, and where it stands. */
export interface Item<T> {
  readonly path: Path
  readonly value: T
}

/**
 * A file held against its schema. What did not fit is in `findings`; the rest can still be used, so that one typing
 * error does not hide the problems of everything else.
 */
export class CheckedFile {
  readonly manifest: ManifestName
  readonly findings: readonly Finding[]
  readonly #value: Json

  constructor(manifest: ManifestName, schema: Schema, value: Json) {
    this.manifest = manifest
    this.#value = value
    this.findings = checkShape(manifest, schema, value)
  }

  /** The value at a path where it has the shape that the schema says, else undefined. `T` is that shape. */
  get<T>(...path: Path): T | undefined {
    return this.#fits(path) ? (valueAt(this.#value, path) as T | undefined) : undefined
  }

  /** The entries of a list that have the right shape. */
  items<T>(key: string): readonly Item<T>[] {
    const list = valueAt(this.#value, [key])
    if (!Array.isArray(list)) return []
    return list.flatMap((value: unknown, index) => {
      const path = [key, index]
      return this.#fits(path) ? [{ path, value: value as T }] : []
    })
  }

  /** Whatever stands there, whether it fits or not. */
  raw(...path: Path): Json | undefined {
    return valueAt(this.#value, path)
  }

  /** Fields nobody knows can be passed over; anything else that is wrong at or below a path makes it unusable. */
  #fits(path: Path): boolean {
    if (!isJsonObject(this.#value)) return false
    return !this.findings.some((finding) => finding.atKey !== true && startsWith(finding.path, path))
  }
}

function startsWith(path: Path, head: Path): boolean {
  return head.every((step, index) => String(path[index]) === String(step))
}

/** What a file came to: its part of the manifest set (null where it is unusable), and what is wrong with it. */
export interface Draft<T> {
  readonly value: T | null
  readonly findings: readonly Finding[]
}

/** Names of a list that stand there before, at or after that entry without being the first: where, and which. */
export function repeated<T>(items: readonly Item<T>[], nameOf: (value: T) => string): readonly Item<T>[] {
  const seen = new Set<string>()
  return items.filter((item) => {
    const name = nameOf(item.value)
    if (seen.has(name)) return true
    seen.add(name)
    return false
  })
}
