/** By how many processes HTTP is served. */
import { Type } from 'typebox'
import { closed } from './closed.ts'

export const Http = Type.Object(
  {
    processes: Type.Integer({
      default: 1,
      minimum: 1,
      maximum: 32,
      description:
        'Processes that answer at the one port, each on a processor core of its own: for more requests a second than one core answers. The first also does runs and all else. Limits are of all together, or divided among them (decision 302).',
    }),
  },
  closed,
)
