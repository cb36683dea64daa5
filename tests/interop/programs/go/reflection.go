package main

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"
	v1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	v1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// reflect asks for the services and the file of one, and calls a method of it by no more than the
// descriptors it was given, as grpcurl does; by both versions.
func (p *Program) reflect(ctx context.Context, command Command) (Answer, error) {
	connection, err := grpc.NewClient(p.endpoint, grpc.WithTransportCredentials(p.credentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	answer := Answer{}
	for version, ask := range map[string]asker{"v1": reflectV1, "v1alpha": reflectV1Alpha} {
		services, files, err := ask(ctx, connection, command.Service)
		if err != nil {
			return nil, err
		}
		methods, called, err := callDescribed(ctx, connection, files, command)
		if err != nil {
			return nil, err
		}
		answer[version] = Answer{"services": services, "methods": methods, "answer": called}
	}
	return answer, nil
}

// asker gives the names of all services, and the file of a symbol with those that it imports.
type asker func(ctx context.Context, connection *grpc.ClientConn, symbol string) (services []string, files [][]byte, err error)

func reflectV1(ctx context.Context, connection *grpc.ClientConn, symbol string) ([]string, [][]byte, error) {
	stream, err := v1.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer stream.CloseSend()
	list := &v1.ServerReflectionRequest_ListServices{}
	if err = stream.Send(&v1.ServerReflectionRequest{MessageRequest: list}); err != nil {
		return nil, nil, err
	}
	listed, err := stream.Recv()
	if err != nil {
		return nil, nil, err
	}
	var services []string
	for _, service := range listed.GetListServicesResponse().GetService() {
		services = append(services, service.Name)
	}
	find := &v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}
	if err = stream.Send(&v1.ServerReflectionRequest{MessageRequest: find}); err != nil {
		return nil, nil, err
	}
	found, err := stream.Recv()
	if err != nil {
		return nil, nil, err
	}
	return services, found.GetFileDescriptorResponse().GetFileDescriptorProto(), nil
}

func reflectV1Alpha(ctx context.Context, connection *grpc.ClientConn, symbol string) ([]string, [][]byte, error) {
	stream, err := v1alpha.NewServerReflectionClient(connection).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer stream.CloseSend()
	list := &v1alpha.ServerReflectionRequest_ListServices{}
	if err = stream.Send(&v1alpha.ServerReflectionRequest{MessageRequest: list}); err != nil {
		return nil, nil, err
	}
	listed, err := stream.Recv()
	if err != nil {
		return nil, nil, err
	}
	var services []string
	for _, service := range listed.GetListServicesResponse().GetService() {
		services = append(services, service.Name)
	}
	find := &v1alpha.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}
	if err = stream.Send(&v1alpha.ServerReflectionRequest{MessageRequest: find}); err != nil {
		return nil, nil, err
	}
	found, err := stream.Recv()
	if err != nil {
		return nil, nil, err
	}
	return services, found.GetFileDescriptorResponse().GetFileDescriptorProto(), nil
}

func callDescribed(ctx context.Context, connection *grpc.ClientConn, files [][]byte, command Command) ([]string, json.RawMessage, error) {
	set := &descriptorpb.FileDescriptorSet{}
	for _, raw := range files {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(raw, file); err != nil {
			return nil, nil, err
		}
		set.File = append(set.File, file)
	}
	known, err := protodesc.NewFiles(set)
	if err != nil {
		return nil, nil, err
	}
	found, err := known.FindDescriptorByName(protoreflect.FullName(command.Service))
	if err != nil {
		return nil, nil, err
	}
	service, isService := found.(protoreflect.ServiceDescriptor)
	if !isService {
		return nil, nil, fmt.Errorf("%s is no service", command.Service)
	}
	var methods []string
	for i := range service.Methods().Len() {
		methods = append(methods, string(service.Methods().Get(i).Name()))
	}
	method := service.Methods().ByName(protoreflect.Name(command.Method))
	if method == nil {
		return nil, nil, fmt.Errorf("%s has no method %s", command.Service, command.Method)
	}
	request := dynamicpb.NewMessage(method.Input())
	if err = protojson.Unmarshal(command.Request, request); err != nil {
		return nil, nil, err
	}
	answer := dynamicpb.NewMessage(method.Output())
	path := fmt.Sprintf("/%s/%s", command.Service, command.Method)
	if err = connection.Invoke(ctx, path, request, answer); err != nil {
		return nil, nil, err
	}
	called, err := protojson.Marshal(answer)
	return methods, called, err
}
