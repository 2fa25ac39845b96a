/** The command that does a run, or one check of it, again. */
import type { Level } from './check.ts'

export interface Replayed {
  /** As the plugin was named; a folder of its own where nobody has said. */
  readonly plugin?: string
  readonly fixture?: string | undefined
  readonly level: Level
  readonly seed: number
}

export function replayCommand({ plugin = '.', fixture, level, seed }: Replayed, only: readonly string[] = []): string {
  const words = ['npx', 'sluice-conformance', plugin, '--level', level, '--seed', String(seed)]
  if (fixture !== undefined) words.push('--fixture', fixture)
  if (only.length > 0) words.push('--only', only.join(','))
  return words.map(quoted).join(' ')
}

/** For a shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`
}
