/** The public surface of a package as a list of lines that can be compared: a name, or a member of one. */

export interface ApiEntry {
  /** `ReadPlan`, or `ReadPlan > readonly limit: number;`. */
  readonly text: string
  /** The interface that it is a required member of. */
  readonly requiredIn: string | null
}

export interface ApiChange {
  readonly removed: readonly string[]
  readonly added: readonly string[]
  /** Of both, what breaks code that was written against the former surface. */
  readonly breaking: readonly string[]
}

/**
 * Made by the runtime and read by plugins: a new member of these breaks nobody. A new required member of any other
 * interface asks something of every plugin that implements or builds it.
 */
const GIVEN_TO_PLUGINS: ReadonlySet<string> = new Set([
  'ChangeSet',
  'Clock',
  'Commit',
  'ConnectorHost',
  'Host',
  'LakeEngine',
  'LakeQueryResult',
  'LakeSnapshot',
  'Logger',
  'Metrics',
  'NetworkPolicy',
  'ReadPlan',
  'ReadPolicy',
  'ReadRequest',
  'RowPolicy',
  'SeenWrites',
  'Target',
])

/** From declarations without comments, as the compiler writes them: four spaces to a level. */
export function apiEntries(declarations: string): readonly ApiEntry[] {
  const entries: ApiEntry[] = []
  let path: string[] = []
  for (const line of declarations.split('\n')) {
    const text = withoutVersion(line.trim())
    if (text === '' || /^[)}\]|]*[;,]?$/.test(text) || text === 'export {};' || text.startsWith('import ')) continue
    const depth = (line.length - line.trimStart().length) / 4
    path = [...path.slice(0, depth), text]
    const [head = ''] = path
    const owner = /^export (?:declare )?interface (\w+)/.exec(head)?.[1] ?? null
    const isRequired = depth === 1 && owner !== null && !/^(?:readonly )?[\w'"[\]-]+\?/.test(text)
    entries.push({ text: path.map(withoutBrace).join(' > '), requiredIn: isRequired ? owner : null })
  }
  return entries
}

/** That the contract says its version is part of the surface; which it is, is not. */
function withoutVersion(text: string): string {
  return text.replace(/^(export declare const SDK_VERSION) = .*/, '$1')
}

function withoutBrace(text: string): string {
  return text.replace(/\s*\{$/, '')
}

export function compareApi(former: string, current: string): ApiChange {
  const [before, now] = [apiEntries(former), apiEntries(current)]
  const [known, present] = [new Set(before.map(({ text }) => text)), new Set(now.map(({ text }) => text))]
  const removed = [...known].filter((text) => !present.has(text))
  const added = now.filter(({ text }) => !known.has(text))
  const owners = new Set(before.map(({ requiredIn }) => requiredIn))
  const demanded = added.filter(
    ({ requiredIn }) => requiredIn !== null && owners.has(requiredIn) && !GIVEN_TO_PLUGINS.has(requiredIn),
  )
  return { removed, added: added.map(({ text }) => text), breaking: [...removed, ...demanded.map(({ text }) => text)] }
}
