import type { Column } from '@sluice/sdk'
import type { OutputColumn } from './manifest-set.ts'
import type { Finding, ManifestName, Path } from './problem.ts'

/**
 * The columns of output.yaml (or of an input) as other files may name them. Columns whose entry is wrong still exist, and where the
 * whole list is unreadable every name is taken for one: otherwise one mistake would be reported as many.
 */
export class Columns {
  readonly #byName: ReadonlyMap<string, OutputColumn>
  readonly #names: ReadonlySet<string> | null
  readonly #of: string

  /** @param of whose columns they are, as the subject of a sentence */
  constructor(columns: readonly OutputColumn[], names: ReadonlySet<string> | null, of = 'output.yaml') {
    this.#byName = new Map(columns.map((column) => [column.name, column]))
    this.#names = names
    this.#of = of
  }

  /** Of an input, whose columns have no role of their own. */
  static ofInput(columns: readonly Column[], of: string): Columns {
    const own = columns.map((column) => ({
      ...column,
      role: 'attribute' as const,
      classification: 'public',
      description: '',
    }))
    return new Columns(own, new Set(columns.map(({ name }) => name)), of)
  }

  /** Undefined where the column does not exist or its entry is wrong. */
  get(name: string): OutputColumn | undefined {
    return this.#byName.get(name)
  }

  exists(name: string): boolean {
    return this.#names?.has(name) ?? true
  }

  get all(): readonly OutputColumn[] {
    return [...this.#byName.values()]
  }

  /** True where every entry could be read, so that what is not there is truly absent. */
  get complete(): boolean {
    return this.#names !== null && this.#names.size === this.#byName.size
  }

  /** What to say of a name that is no column; nothing where it is one. */
  missing(manifest: ManifestName, path: Path, name: string): readonly Finding[] {
    if (this.exists(name)) return []
    const unknown = { name, among: this.#names ?? [] }
    return [{ manifest, path, message: `${this.#of} has no column "${name}"`, unknown }]
  }

  /** The same for what stands at `path`: one name or a list of them. */
  missingOf(manifest: ManifestName, path: Path, names: string | readonly string[]): readonly Finding[] {
    if (typeof names === 'string') return this.missing(manifest, path, names)
    return names.flatMap((name, index) => this.missing(manifest, [...path, index], name))
  }
}
