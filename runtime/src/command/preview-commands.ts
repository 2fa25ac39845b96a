/** Commands for previews: a version beside the one in service. */
import { listed } from './arguments.ts'
import { type Command, gone, segment, word } from './command.ts'
import { ACCEPT, accepted, BREAKS, type DeployAnswer, LOWER, shownPlan } from './deploy-answer.ts'
import { followRun } from './run-progress.ts'

export const PREVIEW_COMMANDS: Readonly<Record<string, Command>> = {
  'product promote': {
    usage: 'product promote PRODUCT [--digest D] [--accept-differences]',
    summary: 'put the version of the preview in service, judged and made anew, and wait for its content',
    flags: {
      digest: 'of the preview that was reviewed; without one a preview that is yours is promoted',
      ...LOWER,
      ...BREAKS,
      ...ACCEPT,
      'no-wait': 'do not wait for the content',
    },
    remote: true,
    async run(call) {
      const client = await call.client()
      const { digest } = call.args.flags
      const named = { lower: listed(call.args, 'lower'), breaks: listed(call.args, 'breaks') }
      const body = { ...(digest === undefined ? {} : { digest }), ...named, ...accepted(call.args) }
      const path = `/api/v1/products/${segment(call, 0, 'PRODUCT')}/promote`
      const answer = (await client.request('POST', path, body)) as DeployAnswer
      if (answer.run_id && !call.args.flags['no-wait']) await followRun(client, answer.run_id, null)
      if (call.args.flags['json']) return answer
      return `${shownPlan(answer.plan)}\n\nVersion ${answer.deployment?.version} is deployed.`
    },
  },
  'product discard': {
    usage: 'product discard PRODUCT',
    summary: 'throw the preview away: nobody reads it any more, and its rows are removed',
    remote: true,
    async run(call) {
      await (await call.client()).request('DELETE', `/api/v1/products/${segment(call, 0, 'PRODUCT')}/preview`)
      return gone(call, `The preview of ${word(call, 0, 'PRODUCT')} is gone.`)
    },
  },
}

/** Where a version that was deployed as a preview is read, and how long. */
export function previewNote({ deployment }: DeployAnswer, name: string): string {
  return [
    `Version ${deployment?.version} is previewed as ${name}@preview, for developers alone.`,
    `To put it in service: sluice product promote ${name}. To throw it away: sluice product discard ${name}.`,
  ].join('\n')
}
