// sandbox.mjs - create, connect, runCode, files, commands, pty of the npm package.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { isOld, scalebox } from './kit.mjs'

const { Sandbox, CodeInterpreter } = scalebox
let sandbox
before(async () => { sandbox = await Sandbox.create({ timeoutMs: 300_000, metadata: { aKey: 'a b' }, envs: { COLOUR: 'blue' } }) })
after(async () => { await sandbox.kill() })

// The package has the number when the first event has come, and throws before.
const pidOf = async (handle) => {
  for (;;) {
    try { return handle.pid } catch { await new Promise(setImmediate) }
  }
}

test('a sandbox answers over HTTPS as soon as it is made', async () => {
  assert.equal(await sandbox.isRunning(), true)
  const info = await sandbox.getInfo()
  assert.deepEqual([info.sandboxId, info.status, info.metadata, info.timeout], [sandbox.sandboxId, 'running', { aKey: 'a b' }, 300])
  assert.equal(info.endAt - info.startedAt, 300_000)
})

test('it is connected to and listed', async () => {
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await again.commands.run('echo $COLOUR')).stdout, 'blue\n')
  const listed = await Sandbox.list().nextItems()
  assert.ok(listed.some((one) => one.sandboxId === sandbox.sandboxId && one.metadata.aKey === 'a b'))
  assert.equal((await sandbox.getInfo()).timeout, 300) // a connection without a timeout leaves it as it is
})

test('code has output, results and errors', async () => {
  const done = await sandbox.runCode('print("hällo"); 40 + 2', { language: 'python' })
  assert.deepEqual([done.stdout, done.text, done.exitCode, done.error], ['hällo\n', '42', 0, undefined])
  const failed = await sandbox.runCode('1/0', { language: 'python' })
  assert.deepEqual([failed.exitCode, failed.error.name, failed.error.value], [1, 'ZeroDivisionError', 'division by zero'])
  const seen = []
  await sandbox.runCode('import sys; print(1); print(2, file=sys.stderr)', {
    language: 'python', onStdout: (one) => { seen.push(one.content) }, onStderr: (one) => { seen.push(one.content) } })
  assert.deepEqual(seen.sort(), ['1\n', '2\n'])
  assert.equal((await sandbox.runCode('echo $((1 + 2))', { language: 'bash' })).stdout, '3\n')
})

test('a context keeps variables, and many calls without one keep it', async () => {
  const interpreter = await CodeInterpreter.create({ timeoutMs: 300_000 })
  try {
    const context = await interpreter.createCodeContext({ language: 'python', cwd: '/tmp' })
    await interpreter.runCode('x = 7', { language: 'python', context })
    await interpreter.runCode('y = x', { language: 'python', context })
    for (let i = 0; i < 35; i++) {
      const done = await interpreter.runCode(`${i} + 1`, { language: 'python' })
      assert.deepEqual([done.text, done.error], [`${i + 1}`, undefined])
    }
    assert.equal((await interpreter.runCode('import os; (y, os.getcwd())', { language: 'python', context })).text, "(7, '/tmp')")
    await interpreter.destroyContext(context)
  } finally {
    await interpreter.close?.()
  }
})

test('files are written, read, listed, moved and removed', async () => {
  const text = 'größe\n'.repeat(100_000)
  assert.equal((await sandbox.files.write('/home/user/a/b.txt', text)).path, '/home/user/a/b.txt')
  assert.equal(await sandbox.files.read('/home/user/a/b.txt'), text)
  await sandbox.files.write('relative.txt', 'x')
  assert.equal(await sandbox.files.read('relative.txt'), 'x')
  assert.equal((await sandbox.commands.run('cat /home/user/relative.txt')).stdout, 'x')
  assert.deepEqual((await sandbox.files.list('/home/user/a')).map((one) => [one.name, one.type, one.size]), [['b.txt', 'file', 800_000]])
  await sandbox.files.makeDir('/home/user/new')
  await sandbox.files.move('/home/user/a/b.txt', '/home/user/new/c.txt')
  assert.equal(await sandbox.files.exists('/home/user/new/c.txt'), true)
  await sandbox.files.remove('/home/user/new/c.txt')
  assert.equal(await sandbox.files.exists('/home/user/new/c.txt'), false)
  await assert.rejects(sandbox.files.read('/home/user/none.txt'), /there is no '\/home\/user\/none.txt'/)
})

test('signed addresses need no token, and open one file only', async (t) => {
  if (isOld) return t.skip('this version signs nothing')
  await sandbox.files.write('/home/user/signed.txt', 'signed')
  const address = await sandbox.downloadUrl('/home/user/signed.txt', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(address)).text(), 'signed')
  assert.equal((await fetch(address.replace('signed.txt', 'relative.txt'))).status, 401)
  assert.equal((await fetch(address.replace(/signature=[^&]*&?/, ''))).status, 401)
  const form = new FormData()
  form.append('file', new Blob(['up']), 'ignored')
  const up = await fetch(await sandbox.uploadUrl('/home/user/up.txt'), { method: 'POST', body: form })
  assert.deepEqual([up.status, (await up.json()).path], [200, '/home/user/up.txt'])
  assert.equal(await sandbox.files.read('/home/user/up.txt'), 'up')
})

test('commands have output, status, folder and environment', async () => {
  const done = await sandbox.commands.run('echo out; echo bad >&2; pwd; whoami; echo $A', { envs: { A: '1' }, cwd: '/tmp' })
  assert.deepEqual([done.exitCode, done.stdout, done.stderr], [0, 'out\n/tmp\nuser\n1\n', 'bad\n'])
  assert.equal((await sandbox.commands.run('exit 3')).exitCode, 3)
})

test('commands in the background are listed, fed and killed', async () => {
  const handle = await sandbox.commands.run('read line; echo got $line; exec sleep 1000', { background: true })
  const pid = await pidOf(handle)
  assert.ok((await sandbox.commands.list()).some((one) => one.pid === pid))
  await sandbox.commands.sendStdin(pid, 'word\n')
  assert.equal(await sandbox.commands.kill(pid), true)
})

test('a terminal', async () => {
  let text = ''
  const handle = await sandbox.pty.start({ cols: 100, rows: 30, onData: (data) => { text += Buffer.from(data).toString() } })
  const ended = handle.wait()
  await pidOf(handle)
  await sandbox.pty.resize(handle.pid, { cols: 120, rows: 40 })
  await sandbox.pty.sendInput(handle.pid, Buffer.from('stty size; exit\n'))
  await ended
  assert.match(text, /40 120/)
})

test('metrics, a new timeout, pause and connect', async () => {
  const [sample] = await sandbox.getMetrics()
  assert.ok(sample.memTotal > 0 && sample.diskTotal > 0 && sample.cpuCount > 0)
  await sandbox.setTimeout(120_000)
  await sandbox.files.write('/home/user/kept.txt', 'kept')
  if (isOld) return // it resumes only a sandbox whose timeout cannot be set
  await sandbox.betaPause()
  assert.deepEqual([(await sandbox.getInfo()).status, await sandbox.isRunning()], ['paused', false])
  await sandbox.connect()
  assert.equal(await sandbox.files.read('/home/user/kept.txt'), 'kept')
})

test('what is not here is an error with a sentence', async () => {
  if (!isOld) await assert.rejects(Sandbox.create({ objectStorage: { uri: 's3://b/', mountPoint: '/mnt' } }), /object_storage: this server mounts no object storage/)
  await assert.rejects(Sandbox.create('no-such-template', {}), /404|no template/)
  await assert.rejects(Sandbox.create({ apiKey: 'wrong' }), /this key is not valid/)
})

test('a sandbox that was killed does not run', async () => {
  const own = await Sandbox.create()
  await own.kill()
  assert.equal(await own.isRunning(), false)
  await assert.rejects(Sandbox.connect(own.sandboxId), /doesn't exist|not found/)
})
