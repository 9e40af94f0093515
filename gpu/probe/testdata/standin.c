/*
 * A stand-in for libnvidia-ml.so.1: two GPUs, and whatever can be wrong with them.
 *
 * The file named by the environment variable NVML_STANDIN controls it and is read
 * again at every call. Each line is KEY=VALUE:
 *
 *   count=2              GPUs
 *   driver=580.65.06     its version
 *   hang=FUNCTION        never returns from this function
 *   crash=FUNCTION       ends the process in it
 *   err.FUNCTION=15      returns this code, on every device
 *   err.FUNCTION.1=15    on GPU 1
 *   total.0= free.0= used.0=      MiB
 *   util.0=71            percent
 *   samples.0=10,20,30   the buffer, one per second, newest a second ago; -1 is a
 *                        record in the far future
 *   mode.0=3             compute mode
 *   procs.0=4711:1024,0:5,99:-1   pid:MiB; -1 is not available
 *   mps.0=12:7           MPS clients
 *   endless.0=1          always has more processes than there was room for
 *   stale=1              once set, all devices fail with 999 until NVML is initialized again
 *   overlong.0=1         claims more processes than there was room for
 *   ecc.0=2              uncorrectable ECC errors; not supported without
 *   remap.0=1            a row waits to be remapped
 *   xid=1:79             the error that the next event reports of GPU 1, once
 *   nvlink.0=1,3         GPUs that 0 has NVLink to; and so for 1 and 3
 *   ancestor.0=1:10,2:50 common ancestors of 0 and others, as NVML numbers them
 *   mig.0=3              MIG mode, with room for 3 instances of which the second is missing
 *   noise=1              prints on stdout
 *   write=PATH           appends to this file when asked for utilization
 *
 * Compiled with -DNO_FUNCTION it lacks that function; with -DOLD it has only the
 * unversioned ones, as old drivers have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "nvml.h"

/* Devices 0 to 9 are GPUs, 10 * (gpu + 1) + n the n-th instance of one. */
static int devices[128];

static int number(nvmlDevice_t d) { return (int)((int *)d.handle - devices); }

static nvmlDevice_t device(int n)
{
	nvmlDevice_t d = {(void *)&devices[n]};
	return d;
}

/* config finds KEY's value, or returns 0. */
static int config(const char *key, char *value, size_t size)
{
	const char *path = getenv("NVML_STANDIN");
	FILE *f = path ? fopen(path, "r") : NULL;
	char line[4096];
	int found = 0;
	size_t n = strlen(key);

	while (f && !found && fgets(line, sizeof line, f)) {
		if (strncmp(line, key, n) == 0 && line[n] == '=') {
			line[strcspn(line, "\n")] = 0;
			snprintf(value, size, "%s", line + n + 1);
			found = 1;
		}
	}
	if (f)
		fclose(f);
	return found;
}

static long long value(const char *key, int dev, long long otherwise)
{
	char full[200], text[4096];

	if (dev < 0)
		snprintf(full, sizeof full, "%s", key);
	else
		snprintf(full, sizeof full, "%s.%d", key, dev);
	return config(full, text, sizeof text) ? atoll(text) : otherwise;
}

/* What only another process gets rid of. */
static int stale;

/* before is what every function does first. */
static nvmlReturn_t before(const char *function, int dev)
{
	char text[200], key[200];

	if (config("hang", text, sizeof text) && strcmp(text, function) == 0)
		for (;;)
			pause();
	if (config("crash", text, sizeof text) && strcmp(text, function) == 0)
		*(volatile int *)0 = 1;
	if (strcmp(function, "util") == 0 && config("write", text, sizeof text)) {
		FILE *f = fopen(text, "a");
		if (f) {
			fputs("read\n", f);
			fclose(f);
		}
	}
	if (dev >= 0 && (stale || (stale = value("stale", -1, 0) != 0)))
		return NVML_ERROR_UNKNOWN;
	snprintf(key, sizeof key, "err.%s", function);
	if (dev >= 0 && value(key, dev, 0))
		return (nvmlReturn_t)value(key, dev, 0);
	return (nvmlReturn_t)value(key, -1, 0);
}

#define BEFORE(function, dev) \
	do { \
		nvmlReturn_t ret_ = before(function, dev); \
		if (ret_ != NVML_SUCCESS) \
			return ret_; \
	} while (0)

static nvmlReturn_t init(void)
{
	if (value("noise", -1, 0)) {
		printf("{this library says things\n");
		fflush(stdout);
	}
	BEFORE("init", -1);
	return NVML_SUCCESS;
}

static nvmlReturn_t count(unsigned int *n)
{
	BEFORE("count", -1);
	*n = (unsigned int)value("count", -1, 2);
	return NVML_SUCCESS;
}

static nvmlReturn_t handle(unsigned int i, nvmlDevice_t *d)
{
	BEFORE("handle", (int)i);
	*d = device((int)i);
	return NVML_SUCCESS;
}

static void uuid(int n, char *text, unsigned int size)
{
	snprintf(text, size, "%s-%08d-0000-0000-0000-000000000000", n < 10 ? "GPU" : "MIG", n);
}

static nvmlReturn_t pci(nvmlDevice_t d, nvmlPciInfo_t *p)
{
	BEFORE("pci", number(d));
	memset(p, 0, sizeof *p);
	p->bus = (unsigned int)(0x80 - 0x10 * number(d)); /* not in the order of the indices */
	return NVML_SUCCESS;
}

#ifdef OLD
nvmlReturn_t nvmlInit(void) { return init(); }
nvmlReturn_t nvmlDeviceGetCount(unsigned int *n) { return count(n); }
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int i, nvmlDevice_t *d) { return handle(i, d); }
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t d, nvmlPciInfo_t *p) { return pci(d, p); }
#else
#ifndef NO_nvmlInit_v2
nvmlReturn_t nvmlInit_v2(void) { return init(); }
#endif
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *n) { return count(n); }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, nvmlDevice_t *d) { return handle(i, d); }
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *p) { return pci(d, p); }
#endif

nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned int size)
{
	char text[80] = "580.65.06";

	config("driver", text, sizeof text);
	snprintf(v, size, "%s", text);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *v, unsigned int size)
{
	snprintf(v, size, "13.580.65.06");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned int size)
{
	BEFORE("uuid", number(d));
	uuid(number(d), text, size);
	return NVML_SUCCESS;
}

#if !defined OLD && !defined NO_nvmlDeviceGetHandleByUUID
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *text, nvmlDevice_t *d)
{
	char each[80];

	BEFORE("byuuid", -1);
	for (int n = 0; n < 128; n++) {
		uuid(n, each, sizeof each);
		if (strcmp(each, text) == 0) {
			*d = device(n);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}
#endif

#ifndef NO_nvmlDeviceGetName
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *text, unsigned int size)
{
	BEFORE("name", number(d));
	snprintf(text, size, number(d) < 10 ? "NVIDIA Stand-In" : "NVIDIA Stand-In MIG 1g.5gb");
	return NVML_SUCCESS;
}
#endif

static unsigned long long mib(const char *key, int n, long long otherwise)
{
	return (unsigned long long)value(key, n, otherwise) << 20;
}

#ifndef NO_nvmlDeviceGetMemoryInfo
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m)
{
	int n = number(d);

	BEFORE("memory", n);
	m->total = mib("total", n, 24576);
	m->free = mib("free", n, 23576);
	m->used = m->total - m->free;
	return NVML_SUCCESS;
}
#endif

#if !defined OLD && !defined NO_nvmlDeviceGetMemoryInfo_v2
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m)
{
	int n = number(d);

	BEFORE("memory2", n);
	if (m->version != nvmlMemory_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	m->total = mib("total", n, 24576);
	m->free = mib("free", n, 23576);
	m->used = mib("used", n, 400);
	m->reserved = m->total - m->free - m->used;
	return NVML_SUCCESS;
}
#endif

#ifndef NO_nvmlDeviceGetComputeMode
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, nvmlComputeMode_t *mode)
{
	BEFORE("mode", number(d));
	*mode = (nvmlComputeMode_t)value("mode", number(d), 0);
	return NVML_SUCCESS;
}
#endif

#ifndef NO_nvmlDeviceGetUtilizationRates
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u)
{
	BEFORE("util", number(d));
	if (number(d) >= 10 || value("mig", number(d), 0))
		return NVML_ERROR_NOT_SUPPORTED;
	u->gpu = (unsigned int)value("util", number(d), 0);
	u->memory = 0;
	return NVML_SUCCESS;
}
#endif

#if !defined OLD && !defined NO_nvmlDeviceGetSamples
nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t d, nvmlSamplingType_t type, unsigned long long last,
				  nvmlValueType_t *kind, unsigned int *n, nvmlSample_t *samples)
{
	char key[40], text[4096];
	struct timeval now;
	unsigned int have = 0, given = 0;

	BEFORE("samples", number(d));
	if (type != NVML_GPU_UTILIZATION_SAMPLES)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(key, sizeof key, "samples.%d", number(d));
	if (!config(key, text, sizeof text))
		return NVML_ERROR_NOT_FOUND;
	for (char *p = text; *p; p++)
		have += *p == ',';
	have++;
	*kind = NVML_VALUE_TYPE_UNSIGNED_INT;
	if (!samples) {
		*n = have + 5; /* more room than there are records */
		return NVML_SUCCESS;
	}
	gettimeofday(&now, NULL);
	for (char *p = strtok(text, ","); p; p = strtok(NULL, ","), have--) {
		unsigned long long at = now.tv_sec * 1000000ULL + now.tv_usec - have * 1000000ULL;

		if (atoi(p) < 0)
			at = ~0ULL / 4;
		if (at <= last)
			continue;
		samples[given].timeStamp = at;
		samples[given].sampleValue.uiVal = (unsigned int)abs(atoi(p));
		given++;
	}
	*n = given;
	return NVML_SUCCESS;
}
#endif

/* next reads one pid:MiB of a list. */
static char *next(char *p, unsigned int *pid, unsigned long long *bytes)
{
	long long m;

	*pid = (unsigned int)strtoul(p, &p, 10);
	m = strtoll(p + 1, &p, 10);
	*bytes = m < 0 ? ~0ULL : (unsigned long long)m << 20;
	return *p == ',' ? p + 1 : p;
}

#ifdef OLD
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_v1_t *infos)
{
	char key[40], text[4096] = "", *p = text;
	unsigned int have = 0, pid, room = *n;
	unsigned long long bytes;

	snprintf(key, sizeof key, "procs.%d", number(d));
	config(key, text, sizeof text);
	while (*p) {
		p = next(p, &pid, &bytes);
		if (have < room) {
			infos[have].pid = pid;
			infos[have].usedGpuMemory = bytes;
		}
		have++;
	}
	*n = have;
	return have > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
#else
static nvmlReturn_t list(const char *name, nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)
{
	char key[40], text[4096] = "", *p = text;
	unsigned int have = 0, pid, room = *n;
	unsigned long long bytes;

	snprintf(key, sizeof key, "%s.%d", name, number(d));
	config(key, text, sizeof text);
	while (*p) {
		p = next(p, &pid, &bytes);
		if (have < room) {
			memset(&infos[have], 0xff, sizeof infos[have]);
			infos[have].pid = pid;
			infos[have].usedGpuMemory = bytes;
		}
		have++;
	}
	*n = have;
	if (value("endless", number(d), 0)) {
		*n = room;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	if (have > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	*n += (unsigned int)value("overlong", number(d), 0) * 1000;
	return NVML_SUCCESS;
}

#ifndef NO_nvmlDeviceGetComputeRunningProcesses_v3
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)
{
	BEFORE("procs", number(d));
	return list("procs", d, n, infos);
}
#endif

#ifndef NO_nvmlDeviceGetMPSComputeRunningProcesses_v3
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos)
{
	BEFORE("mps", number(d));
	return list("mps", d, n, infos);
}
#endif

#ifndef NO_nvmlDeviceGetTotalEccErrors
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
					 unsigned long long *n)
{
	BEFORE("ecc", number(d));
	if (type != NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counter != NVML_VOLATILE_ECC)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (value("ecc", number(d), -1) < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*n = (unsigned long long)value("ecc", number(d), 0);
	return NVML_SUCCESS;
}
#endif

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned int *correctable, unsigned int *uncorrectable,
				       unsigned int *pending, unsigned int *failed)
{
	BEFORE("remap", number(d));
	*correctable = *uncorrectable = *failed = 0;
	*pending = (unsigned int)value("remap", number(d), 0);
	return NVML_SUCCESS;
}

#ifndef NO_nvmlEventSetCreate
/* The devices whose events are wanted, and the text of the last event. */
static int registered[128];
static char reported[80];

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	set->handle = (void *)registered;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, nvmlEventSet_t set)
{
	BEFORE("register", number(d));
	if (set.handle != (void *)registered || types != nvmlEventTypeXidCriticalError)
		return NVML_ERROR_INVALID_ARGUMENT;
	registered[number(d)] = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout)
{
	char text[80] = "", *end;
	long n;

	BEFORE("wait", -1);
	config("xid", text, sizeof text);
	n = strtol(text, &end, 10);
	if (*end != ':' || strcmp(text, reported) == 0 || n < 0 || n > 9 || !registered[n])
		return NVML_ERROR_TIMEOUT;
	strcpy(reported, text);
	memset(data, 0, sizeof *data);
	data->device = device((int)n);
	data->eventType = nvmlEventTypeXidCriticalError;
	data->eventData = strtoull(end + 1, NULL, 10);
	return NVML_SUCCESS;
}
#endif

/* link_between finds what KEY of one GPU says of the other, or returns -1. */
static int link_between(const char *key, nvmlDevice_t a, nvmlDevice_t b)
{
	char full[40], text[4096];

	for (int turn = 0; turn < 2; turn++) {
		snprintf(full, sizeof full, "%s.%d", key, number(turn ? b : a));
		if (!config(full, text, sizeof text))
			continue;
		for (char *p = strtok(text, ","); p; p = strtok(NULL, ","))
			if (atoi(p) == number(turn ? a : b))
				return strchr(p, ':') ? atoi(strchr(p, ':') + 1) : 1;
	}
	return -1;
}

#ifndef NO_nvmlDeviceGetP2PStatus
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t *status)
{
	BEFORE("p2p", number(a));
	if (index != NVML_P2P_CAPS_INDEX_NVLINK)
		return NVML_ERROR_INVALID_ARGUMENT;
	*status = link_between("nvlink", a, b) > 0 ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}
#endif

#ifndef NO_nvmlDeviceGetTopologyCommonAncestor
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t *level)
{
	BEFORE("ancestor", number(a));
	if (link_between("ancestor", a, b) < 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*level = (nvmlGpuTopologyLevel_t)link_between("ancestor", a, b);
	return NVML_SUCCESS;
}
#endif

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *now, unsigned int *pending)
{
	*now = *pending = value("mig", number(d), 0) > 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *n)
{
	*n = (unsigned int)value("mig", number(d), 0);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int i, nvmlDevice_t *instance)
{
	int n = 10 * (number(d) + 1) + (int)i;

	if (i == 1)
		return NVML_ERROR_NOT_FOUND;
	BEFORE("instance", n);
	*instance = device(n);
	return NVML_SUCCESS;
}
#endif
