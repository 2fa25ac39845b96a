/** The six manifests, by the names of their multipart fields. */
export const MANIFEST_NAMES = ['product', 'inputs', 'output', 'quality', 'serving', 'compute'] as const

export type ManifestName = (typeof MANIFEST_NAMES)[number]

/** What a YAML file holds. An integer beyond ±(2^53−1) comes as text, so that no digit is lost. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject

export interface JsonObject {
  readonly [key: string]: Json
}

/** Keys and list indexes from the root of a manifest. */
export type Path = readonly (string | number)[]

/** Something wrong (or worth a warning), as a check finds it: by path. */
export interface Finding {
  readonly manifest: ManifestName
  readonly path: Path
  readonly message: string
  /** What to write instead, as one sentence. */
  readonly hint?: string
  /**
   * A name that is not among those there are, where no hint is given: what was probably meant is looked up when the
   * finding is shown, because there can be far more findings than are.
   */
  readonly unknown?: { readonly name: string; readonly among: Iterable<string> }
  /** Points to the key instead of to its value. */
  readonly atKey?: boolean
  /** A warning does not keep the manifests from being deployed. */
  readonly warning?: boolean
}

/** A finding with the place where its author sees it. */
export interface Problem {
  readonly manifest: ManifestName
  /** Both count from 1; the column in UTF-16 units, as editors count. */
  readonly line: number
  readonly column: number
  /** `endpoints[0].config.ttl`; empty for the file as a whole. */
  readonly path: string
  readonly message: string
  readonly hint?: string
}

/** `['endpoints', 0, 'config', 'ttl']` → `endpoints[0].config.ttl`. */
export function formatPath(path: Path): string {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(step)) text += text === '' ? step : `.${step}`
    else text += `[${JSON.stringify(step.slice(0, 80))}]`
  }
  return text
}

/** JSON pointer (RFC 6901) → path; a step of digits is a list index. */
export function pathOfPointer(pointer: string): Path {
  const text = pointer.startsWith('#') ? pointer.slice(1) : pointer
  if (text === '') return []
  return text
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((step) => (/^\d{1,9}$/.test(step) ? Number(step) : step))
}

/** A value of the author's as it may stand in a message: short and on one line. */
export function quoted(value: Json | undefined): string {
  if (value === undefined) return 'nothing'
  const text = JSON.stringify(value)
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`
}

export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The value at a path; undefined where there is none. Inherited properties do not count. */
export function valueAt(root: Json | undefined, path: Path): Json | undefined {
  let value = root
  for (const step of path) {
    if (Array.isArray(value)) value = typeof step === 'number' ? value[step] : undefined
    else if (isJsonObject(value)) value = Object.hasOwn(value, String(step)) ? value[String(step)] : undefined
    else return undefined
  }
  return value
}
