/** The page of every key of the configuration. */
import { type ConfigKey, configKeys } from '../runtime/src/command/config-reference.ts'
import { table } from './table.ts'

const INTRODUCTION = `# Configuration

Made by \`node docs/generate.ts\` from \`runtime/src/config/schema.ts\`; not to be edited.

\`sluice.yaml\` in the folder where the command runs, or the file of \`--config\` or \`SLUICE_CONFIG\`. A variable of the
environment stands over the file, and a flag (\`--limits.workers 2\`) over both. A double underscore in a variable goes one
level down; a list is separated by commas. In the file \`\${env:NAME}\` and \`\${file:PATH}\` stand for the value of a variable and the
text of a file, so that no secret has to stand there. Nothing has to be set. Everything is read when the runtime starts:
a change takes a restart.

\`sluice config --explain KEY\` tells this of a key, and which value is in force here and where it comes from; \`sluice config
--check\` says whether a configuration is valid.

In a path \`[]\` stands for each entry of a list, and \`*\` for any name.
`

export function configurationPage(): string {
  const groups = Map.groupBy(configKeys(), ({ path }) => path.split('.')[0] ?? '')
  const isAlone = (keys: readonly ConfigKey[]) => keys.every(({ path }) => !path.includes('.'))
  const alone = [...groups.values()].filter(isAlone).flat()
  const parts = [...groups].filter(([, keys]) => !isAlone(keys))
  const sections = parts.map(([name, keys]) => `\n## ${name}\n\n${tableOf(keys)}`)
  return [`${INTRODUCTION}\n## Without a group\n\n${tableOf(alone)}`, ...sections].join('')
}

function tableOf(keys: readonly ConfigKey[]): string {
  const header = ['key', 'what it is', 'type', 'default', 'variable']
  return table(
    header,
    keys.map((key) => [
      `\`${key.path}\``,
      key.description,
      key.type,
      key.default === null ? (key.isRequired ? 'has to be set' : '–') : `\`${key.default}\``,
      key.variable === null ? '–' : `\`${key.variable}\``,
    ]),
  )
}
