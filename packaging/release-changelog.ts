/** The change log of a release: what was unreleased gets the version and the day. */

const UNRELEASED = /^## Unreleased\n+([^]*?)(?=^## |(?![^]))/m

/** Null where nothing is unreleased, or where there is no such section. */
export function releasedChangelog(text: string, version: string, day: string): string | null {
  const changes = UNRELEASED.exec(text)?.[1]?.trimEnd() ?? ''
  if (changes === '') return null
  return text
    .replace(UNRELEASED, () => `## Unreleased\n\n## ${version} (${day})\n\n${changes}\n\n`)
    .replace(/\n+$/, '\n')
}

export function isReleased(text: string, version: string): boolean {
  return text.split('\n').some((line) => line.startsWith(`## ${version} (`))
}
