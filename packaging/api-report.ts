/**
 * Keeps `sdk/api.md`, the public surface of the SDK. With `--check` it writes nothing and ends with 1 where the report is
 * not current. A change that breaks plugins is not taken into the report before the major version is raised.
 */

import { globSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compareApi } from './api-entries.ts'
import { emitDeclarations } from './compile.ts'

const SDK = join(import.meta.dirname, '../sdk')
const REPORT = join(SDK, 'api.md')

async function declarations(): Promise<string> {
  const work = await mkdtemp(join(tmpdir(), 'sluice-api-'))
  try {
    const folder = await emitDeclarations(SDK, work)
    const files = globSync('*.d.ts', { cwd: folder }).sort()
    const texts = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')))
    return texts.map((text) => text.trim()).join('\n')
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

function page(version: string, surface: string): string {
  return `# The public surface of @sluice/sdk ${version}

Made by \`node packaging/api-report.ts\`; not to be edited. What disappears from here, or is newly asked of plugins, needs
a new major version.

\`\`\`ts
${surface}
\`\`\`
`
}

const { version } = JSON.parse(await readFile(join(SDK, 'package.json'), 'utf8')) as { version: string }
const surface = await declarations()
const kept = await readFile(REPORT, 'utf8').catch(() => null)
const former =
  kept === null
    ? null
    : { version: / ([\d.]+)\n/.exec(kept)?.[1] ?? '0', surface: /```ts\n([^]*)\n```/.exec(kept)?.[1] ?? '' }
const wanted = page(version, surface)

if (kept === wanted) {
  console.log(`sdk/api.md is current (${version})`)
} else {
  const { breaking } = compareApi(former?.surface ?? '', surface)
  const major = (text: string) => Number(text.split('.')[0])
  if (former !== null && breaking.length > 0 && major(version) <= major(former.version)) {
    console.error(`the SDK breaks plugins written for ${former.version}:`)
    for (const line of breaking) console.error(`  ${line}`)
    console.error(
      `Keep these, or raise SDK_VERSION and the version in sdk/package.json to ${major(former.version) + 1}.0.0.`,
    )
    process.exitCode = 1
  } else if (process.argv.includes('--check')) {
    console.error(
      'sdk/api.md is not current: run node packaging/api-report.ts, and tell the change in sdk/CHANGELOG.md',
    )
    process.exitCode = 1
  } else {
    await writeFile(REPORT, wanted)
    console.log(`sdk/api.md written (${version})`)
  }
}
